"""The model: one fold from recorded events to tasks and steps, and every figure from it.

Pure: nothing here knows torch, clocks, threads or files.
"""
