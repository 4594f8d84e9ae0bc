"""Calling a function every so often, without a run."""

from instruments.polling import Monitor, ProcessMonitor, ProcessPusher
from instruments.polling import Together as _Monitor
from instruments.polling import poll as monitor

__all__ = ["Monitor", "ProcessMonitor", "ProcessPusher", "_Monitor", "monitor"]
