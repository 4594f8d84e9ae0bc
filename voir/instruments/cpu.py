"""Readings of the processors and of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instruments.process_tree import usage_of
from instruments.readings import cpu_monitor, process_monitor

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import psutil

__all__ = ["cpu_monitor", "process_monitor", "retrieve_process_info"]


def retrieve_process_info(process: psutil.Process, acc: MutableMapping[str, float]) -> None:
    """Add what ``process`` uses to ``acc``; nothing when it cannot be read.

    ``cpu_percent`` is that since the last call with the same object: nothing waits for it.
    """
    import psutil

    usage = usage_of([process])
    if not usage.cpu:
        return
    try:
        used = {"cpu_percent": process.cpu_percent(), "mem_used": usage.memory, "children": 1}
    except psutil.Error:
        return
    for key, value in {**usage.io, **used}.items():
        acc[key] = acc.get(key, 0) + value
