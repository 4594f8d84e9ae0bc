"""NVIDIA's devices."""

from instruments.backends.cuda import DeviceSMI, is_installed

__all__ = ["DeviceSMI", "is_installed"]
