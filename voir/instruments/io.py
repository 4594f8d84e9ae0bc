"""Readings of the disks."""

from instruments.readings import io_monitor

__all__ = ["io_monitor"]
