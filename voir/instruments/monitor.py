"""Monitors of what a voirfile chooses."""

from instruments.monitors.api import instrument_gpus as gpu_monitor
from instruments.monitors.api import monitor, monitor_all

__all__ = ["gpu_monitor", "monitor", "monitor_all"]
