"""Rows for asyncio's tasks: those that take turns on one thread do not lie within each other.

The thread's own row is the first task's that begins a span there; others that are within one of
theirs meanwhile get rows beside it, which are used again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .recorder import BEGIN, END
from .tracks import Track, local


class Turns:
    """Who is on which row of one thread."""

    def __init__(self) -> None:
        self._loop: object = None
        self._first = 0
        self._held: dict[int, tuple[Track, list[str]]] = {}
        self._free: list[Track] = []
        self._made = 0

    def of(self, loop: object) -> Turns:
        """The same for the tasks of ``loop``; those of the one before are over."""
        if loop is not self._loop:
            self._loop, self._first = loop, 0
            self._held.clear()
        return self

    def begins(self, task: int, thread: Track, label: str) -> Track:
        """The row for a span that ``task`` begins."""
        found = self._held.get(task)
        if found is None:
            found = self._held[task] = self._row(task, thread), []
        found[1].append(label)
        return found[0]

    def _row(self, task: int, thread: Track) -> Track:
        if not self._first:
            self._first = task
            return thread
        if self._free:
            return self._free.pop()
        self._made += 1
        return Track(f"{thread.name} task {self._made + 1}")

    def ends(self, task: int, thread: Track, label: str | None) -> Track:
        """The row of a span that ``task`` ends."""
        row, labels = self._held.get(task, (thread, []))
        if label is None and labels:
            labels.pop()
        elif label in labels:
            while labels.pop() != label:
                pass
        if not labels and self._held.pop(task, None) is not None:
            if self._first == task:
                self._first = 0
            else:
                self._free.append(row)
        return row

    def within(self, task: int, thread: Track) -> Track:
        """The row of what ``task`` marks."""
        found = self._held.get(task)
        return thread if found is None else found[0]


class Tasks:
    """Tells rows for what is recorded while an event loop runs.

    Args:
        asyncio: The module.
    """

    def __init__(self, asyncio: Any) -> None:
        self._current: Callable[[Any], object] = asyncio.current_task

    def row(self, loop: object, kind: int, label: str | None) -> Track:
        """Where an event of this kind belongs."""
        thread, task = local.track, self._current(loop)
        if task is None:  # A callback, which is over before anything else runs.
            return thread
        if local.turns is None:
            local.turns = Turns()
        turns = local.turns.of(loop)
        if kind == BEGIN:
            return turns.begins(id(task), thread, label or "")
        return (
            turns.ends(id(task), thread, label) if kind == END else turns.within(id(task), thread)
        )
