"""No accelerator."""

from instruments.backends.cpu import DeviceSMI, is_installed

__all__ = ["DeviceSMI", "is_installed"]
