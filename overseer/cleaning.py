"""Tells what cleans up after a stop from what goes on, once the stop has been swallowed.

The lines of a ``finally``, and the exit of a ``with``, are the same whether an exception passes by
or a handler has swallowed it. In the second case python has forgotten it, and says of a thread only
where it is. So where each ``finally`` is is looked up in the script's text; the exit of a ``with``
is known by its instructions.

What was begun before the stop came does not clean up after it: a script may train in a ``finally``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .boundary import in_library
from .clock import monotonic
from .instructions import leaves_with, may_handle

#: Seconds that one block, or exit, has to come to its end: it may save a large model, or train on.
LIMIT = 300.0
#: How far a block goes: its first line and its last.
Lines = tuple[int, int]

_WHOLE: Lines = (0, sys.maxsize)
_EXITS = {"__exit__", "__aexit__"}
#: What marks the code of generators, coroutines, asynchronous generators: they may be resumed.
_RESUMES = 0x20 | 0x80 | 0x200


class Cleaning:
    """Tells whether a thread cleans up after a stop.

    Args:
        frame: Where the stop has been raised.
    """

    def __init__(self, frame: FrameType | None) -> None:
        # Frames are known by their ids, which keeps neither them nor what is in them alive.
        self._begun = {id(one): one.f_lineno or 0 for one in _stack(frame)}
        self._until = {id(one): {_exit(one): 0.0} for one in _stack(frame) if leaves_with(one)}
        self._texts: dict[str, list[Lines]] = {}
        self._within: tuple[int, float] | None = None

    def __call__(self, frame: FrameType) -> bool:
        """Whether a line that begins now is part of it; to be asked on the thread itself."""
        if self._within is not None:
            ident, until = self._within
            # Nothing that a frame calls has to be looked at before that comes to its next line.
            if ident != id(frame) and monotonic() < until:
                return True
        *_, self._within = (None, *self._found(frame))  # The outermost: it takes the longest.
        return self._within is not None

    @property
    def under_way(self) -> bool:
        """Whether it did at the latest line that was asked about, and that has not been left."""
        return self._within is not None

    def until(self, frame: FrameType | None) -> float:
        """The time until which it is to be left alone; 0.0 where it does not clean up."""
        return max((until for _, until in self._found(frame)), default=0.0)

    def left(self, frame: FrameType) -> None:
        """A frame has been left, or a generator waits to be resumed."""
        if self._within is not None and self._within[0] == id(frame):
            self._within = None
        if not frame.f_code.co_flags & _RESUMES:
            self._begun.pop(id(frame), None)
            self._until.pop(id(frame), None)

    def _found(self, frame: FrameType | None) -> Iterator[tuple[int, float]]:
        """The frames that clean up, and until when they may."""
        now = monotonic()
        for one in _stack(frame):
            begun = self._begun.get(id(one), -1)
            for lines in self._blocks(one):
                if not lines[0] <= begun <= lines[1]:
                    times = self._until.setdefault(id(one), {})
                    until = times.setdefault(lines, now + LIMIT)
                    if now < until:
                        yield id(one), until

    def _blocks(self, frame: FrameType) -> Iterator[Lines]:
        """What a frame is in that cleans up."""
        line, library = frame.f_lineno or 0, in_library(frame)
        # Of the standard library's only what calls the script's own: an event loop that is left
        # runs what is still to do in it.
        named = frame.f_code.co_name in _EXITS
        if named and (not library or frame.f_globals.get("__name__") == "contextlib"):
            yield _WHOLE
        if library or not may_handle(frame.f_code):
            return
        if leaves_with(frame):
            yield _exit(frame)
        yield from (lines for lines in self._finals(frame) if lines[0] <= line <= lines[1])

    def _finals(self, frame: FrameType) -> list[Lines]:
        filename = frame.f_code.co_filename
        if filename not in self._texts:
            self._texts[filename] = _finals_in(filename, frame.f_globals)
        return self._texts[filename]


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _exit(frame: FrameType) -> Lines:
    """What the way out of a ``with`` is known by: no lines, for its body may be in the same one."""
    return frame.f_lineno or 0, 0


def _finals_in(filename: str, names: dict[str, object]) -> list[Lines]:
    """The lines of each ``finally`` in a file; none where its text is not to be had."""
    # Most runs are not stopped, and of those that are most do not swallow it.
    from linecache import getlines

    from .probes.source import parsed

    try:
        tree = parsed("".join(getlines(filename, names)), filename)
    except Exception:  # It is no python any more, or somebody's loader does not say.
        return []
    tries = (node for node in ast.walk(tree) if isinstance(node, ast.Try | ast.TryStar))
    found = (node for node in tries if node.finalbody)
    return [(_last(n.orelse or n.handlers or n.body) + 1, _last(n.finalbody)) for n in found]


def _last(nodes: list[Any]) -> int:
    last: int = nodes[-1].end_lineno
    return last
