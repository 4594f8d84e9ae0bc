"""AMD's devices."""

from instruments.backends.rocm import DeviceSMI, is_installed

__all__ = ["DeviceSMI", "is_installed"]
