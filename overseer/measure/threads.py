"""Every thread's lanes: where a boundary, once its time is known, becomes part of a step."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from .lane import Lane
from .step import Step
from .timeline import Timeline
from .track import Track

STEP, BEGIN, END, ABANDON, RESTART = range(5)
LOADING, LOADED, EXHAUSTED, ENTER, LEAVE, PAUSE, RESUME, COMPILED, BEGUN, BODY = range(5, 15)
LEARNED, GIVEN_UP, ASIDE, OTHER, SHUTS, SHUT = range(BODY + 1, BODY + 7)

#: Threads, and tasks of a thread, that are told apart; those unseen longest make room.
THREADS = 256
LANES = 32


class Thread:
    """One thread's clock, what happens on it between steps, and a lane for each task."""

    __slots__ = ("lanes", "timeline", "track")

    def __init__(self, host_ns: int) -> None:
        self.timeline = Timeline(host_ns)
        self.track = Track()
        self.lanes = self.track.lanes


class Threads:
    """All threads seen.

    Args:
        units: Says what the items of a task are.
    """

    def __init__(self, units: Callable[[str], str]) -> None:
        self._units = units
        self._threads: dict[int, Thread] = {}
        self._counts: dict[str, list[int]] = {}
        self._evicted: list[Step] = []

    def of(self, thread: int, host_ns: int) -> Thread:
        """The thread's own; a new one begins at ``host_ns``."""
        found = self._threads.get(thread)
        if found is None:
            if len(self._threads) >= THREADS:
                self._evict(self._threads.pop(min(self._threads, key=self._rank)).lanes)
            found = self._threads[thread] = Thread(host_ns)
        return found

    def _rank(self, thread: int) -> tuple[bool, int]:
        """The first in this order makes room: without an open pair, and unseen longest."""
        at = self._threads[thread]
        return any(lane.pairs for lane in at.lanes.values()), at.timeline.ns

    def known(self, thread: int) -> Thread | None:
        """The thread's own, if it was seen before."""
        return self._threads.get(thread)

    def lane(self, thread: int, at: Thread, task: str) -> Lane:
        """The lane of ``task`` on a thread."""
        lane = at.lanes.get(task)
        if lane is None:
            if len(at.lanes) >= LANES:
                oldest = next(iter(at.lanes))
                self._evict({oldest: at.lanes.pop(oldest)})
            count = self._counts.setdefault(task, [0])
            lane = at.lanes[task] = Lane(task, self._units(task), thread, at.track, count)
        return lane

    def flush(self, everything: bool = True) -> list[Step]:
        """Steps of lanes that made room; with ``everything``, the last step of every lane."""
        if everything:
            for thread in self._threads.values():
                self._evict(thread.lanes)
        steps, self._evicted = self._evicted, []
        return steps

    def _evict(self, lanes: dict[str, Lane]) -> None:
        for lane in lanes.values():
            self._evicted.extend(lane.flush())


def between(track: Track, kind: int, ns: int, source: Hashable) -> None:
    """Let a boundary happen that is no lane's own."""
    if kind == LOADING:
        track.loading(ns, source)
    elif kind == LOADED:
        track.loaded(ns, source)
    elif kind == EXHAUSTED:
        track.exhausted(ns, source)
    elif kind == ENTER:
        track.enter(ns)
    elif kind == LEAVE:
        track.leave(ns)
    elif kind == PAUSE:
        track.pause(ns)
    elif kind == RESUME:
        track.resume(ns)
    elif kind == COMPILED:
        track.compiled(ns)
    elif kind == BODY:
        track.body(ns, source is not None)
    elif kind == LEARNED:
        track.learned = True
    elif kind == GIVEN_UP:
        track.given_up(ns, source)
    elif kind == ASIDE and source is not None:
        track.evaluated(ns)
    elif kind == ASIDE:
        track.shown_ns = ns
    elif kind == OTHER:
        track.other(source)
    elif kind in (SHUTS, SHUT):
        track.shuts(ns, source, kind == SHUT)
    else:
        track.begun(ns, source)
