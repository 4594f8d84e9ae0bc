"""Readings of the disks."""

from instruments.monitors.api import io_monitor

__all__ = ["io_monitor"]
