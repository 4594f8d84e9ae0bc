"""Makers of accelerators, one file each, and which of them this machine has."""

from .choice import (
    BACKENDS,
    attribute,
    deduce_backend,
    find_monitors,
    get_backends,
    get_gpu_info,
    gpu_info,
    gpu_monitor,
    select_backend,
    selected,
)
from .device import DeviceReader, NotAvailable

__all__ = [
    "BACKENDS",
    "DeviceReader",
    "NotAvailable",
    "attribute",
    "deduce_backend",
    "find_monitors",
    "get_backends",
    "get_gpu_info",
    "gpu_info",
    "gpu_monitor",
    "select_backend",
    "selected",
]
