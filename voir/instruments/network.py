"""Readings of the network."""

from instruments.monitors.api import network_monitor

__all__ = ["network_monitor"]
