"""Monitors of what a voirfile chooses."""

from instruments.custom import gpu_monitor, monitor, monitor_all

__all__ = ["gpu_monitor", "monitor", "monitor_all"]
