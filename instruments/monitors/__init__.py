"""Monitors of the machine, of processes and of GPUs, one file each; see :mod:`..sampling`."""
