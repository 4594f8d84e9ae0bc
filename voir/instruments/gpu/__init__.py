"""Accelerators of all makers: what they tell, and which of them this machine has."""

from instruments.monitors.api import (
    BACKENDS,
    deduce_backend,
    find_monitors,
    get_backends,
    get_gpu_info,
    gpu_info,
    gpu_monitor,
    select_backend,
)
from instruments.monitors.api import attribute as __getattr__
from instruments.monitors.others import NotAvailable

__all__ = [
    "BACKENDS",
    "NotAvailable",
    "__getattr__",
    "deduce_backend",
    "find_monitors",
    "get_backends",
    "get_gpu_info",
    "gpu_info",
    "gpu_monitor",
    "select_backend",
]
