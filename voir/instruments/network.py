"""Readings of the network."""

from instruments.readings import network_monitor

__all__ = ["network_monitor"]
