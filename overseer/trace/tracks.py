"""Where events stand in a trace: the threads, rows of their own, and counters."""

from __future__ import annotations

import itertools
import os
import threading
from _thread import get_ident, get_native_id
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tasks import Turns

#: Track 1 is the process; 0 means none.
PROCESS = 1
_numbers = itertools.count(PROCESS + 1)

#: Kinds of tracks.
ROW, THREAD, COUNTER = range(3)


class Track:
    """A row of the timeline.

    Args:
        name: What stands beside it.
        kind: ``ROW``, ``THREAD`` or ``COUNTER``.
        unit: Of a counter's values.
        group: What counters of one graph share.

    Attributes:
        number: Its identity within a trace.
        stack: The spans that are open, for whoever writes the trace: channel, label, beginning.
        too_deep: How many open spans were one too many.
    """

    __slots__ = ("group", "kind", "name", "number", "stack", "tid", "too_deep", "unit")

    def __init__(self, name: str, kind: int = ROW, unit: str = "", group: str = "") -> None:
        self.name = name
        self.kind = kind
        self.unit = unit
        self.group = group
        self.tid = 0
        self.number = next(_numbers)
        self.stack: list[tuple[str, str, int]] = []
        self.too_deep = 0


class ThreadTrack(Track):
    """The row of the thread that makes it."""

    __slots__ = ("_ident",)

    def __init__(self) -> None:
        super().__init__("", THREAD)
        self.tid = get_native_id()
        self._ident = get_ident()
        self.look()

    def look(self) -> bool:
        """Learn the thread's name as it is now; whether the thread is there and may change it.

        ``threading.current_thread`` would make threading list a thread that it does not know.
        """
        listed: dict[int, threading.Thread] = getattr(threading, "_active", {})
        thread = listed.get(self._ident)
        if thread is not None and thread.native_id == self.tid:
            self.name = thread.name
            return True
        if not self.name:
            self.name = "MainThread" if self.tid == os.getpid() else f"thread {self.tid}"
        return False


class _Local(threading.local):
    """Each thread's own track, made when it first records something."""

    def __init__(self) -> None:
        self.track = ThreadTrack()
        self.turns: Turns | None = None


#: ``local.track`` is the calling thread's, ``local.turns`` what its event loop's tasks are on.
local = _Local()
