"""Readings of the processors and of processes."""

from __future__ import annotations

from instruments.monitors.api import cpu_monitor, process_monitor
from instruments.monitors.process import add_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import psutil

__all__ = ["cpu_monitor", "process_monitor", "retrieve_process_info"]


def retrieve_process_info(process: psutil.Process, acc: MutableMapping[str, float]) -> None:
    """Add what ``process`` uses to ``acc``; nothing when it cannot be read.

    ``cpu_percent`` is that since the last call with the same object: nothing waits for it.
    """
    import psutil

    used: dict[str, float] = {}
    try:
        add_io(used, process)
        used["cpu_percent"] = process.cpu_percent()
        used["mem_used"] = process.memory_info().rss
    except psutil.Error:
        return
    for key, value in {**used, "children": 1}.items():
        acc[key] = acc.get(key, 0) + value
