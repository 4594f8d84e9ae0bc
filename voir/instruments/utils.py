"""Calling a function every so often, without a run."""

from instruments.monitors.api import Monitor, ProcessMonitor, ProcessPusher
from instruments.monitors.api import Together as _Monitor
from instruments.monitors.api import poll as monitor

__all__ = ["Monitor", "ProcessMonitor", "ProcessPusher", "_Monitor", "monitor"]
