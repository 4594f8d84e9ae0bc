"""Habana's devices."""

from instruments.backends.hpu import DeviceSMI, is_installed

__all__ = ["DeviceSMI", "is_installed"]
