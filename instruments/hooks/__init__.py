"""Hooks place the recorder's callables in libraries, and do nothing else."""
