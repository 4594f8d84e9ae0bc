"""Intel's devices."""

from instruments.backends.xpu import DeviceSMI, is_installed

__all__ = ["DeviceSMI", "is_installed"]
