"""Readings of the processors and of processes."""

from instruments.monitors.api import cpu_monitor, process_monitor

__all__ = ["cpu_monitor", "process_monitor"]
