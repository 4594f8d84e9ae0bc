"""Finds the worker of a DataLoader that the main thread waits for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

from ..files import read

STOPPED = "stopped"
_STATES = {
    "R": "running", "S": "sleeping", "D": "waiting for a disk", "T": STOPPED, "t": STOPPED,
    "Z": "dead", "X": "dead",
}  # fmt: skip


def due_worker(frames: Iterable[FrameType]) -> dict[str, Any] | None:
    """The worker whose batch is due.

    Args:
        frames: The frames of the thread that waits.

    Returns:
        Its ``number``, the ``count`` of workers, its ``pid``, and its ``state``; None if no frame
        is a loader's with workers.
    """
    for frame in frames:
        if frame.f_code.co_name in ("_next_data", "_get_data"):
            with suppress(Exception):
                iterator = frame.f_locals["self"]
                number = iterator._task_info[iterator._rcvd_idx][0]
                worker = iterator._workers[number]
                state = state_of(worker.pid)
                return {
                    "number": number, "count": len(iterator._workers), "pid": worker.pid,
                    **({"state": state} if state else {}),
                }  # fmt: skip
    return None


def state_of(pid: int) -> str:
    """What the system says of a process: ``sleeping``, ``running``; empty if unknown."""
    with suppress(OSError, IndexError):
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return _STATES.get(fields[0].decode(), "")
    return "dead" if os.path.exists("/proc/self") else ""
