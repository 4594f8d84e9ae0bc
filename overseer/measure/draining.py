"""Feeds the events of the structure ring to the fold."""

from __future__ import annotations

from _thread import allocate_lock

from ..clock import sleep
from ..model.fold import Fold
from ..model.steps import Step
from ..recorder import recorder, table
from ..recorder.sites import STRUCTURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: One tick folds this many events at a time, with a rest (seconds) in which the script's threads
#: have the interpreter to themselves, for at most this long.
EVENTS_AT_ONCE, REST_SECONDS, FOLDING_NS = 1024, 0.0005, 20_000_000
EVENT_BYTES = 32
#: Bytes of events that may wait for the fold; further ones stay in the ring, which may lose them.
BACKLOG = 1 << 26


class Draining:
    """Takes events out of the structure ring and feeds them to the fold, from any thread.

    Args:
        method: The fold's.
        first_site: The first site of this run.
        readers: Called with the same events after the fold, under the lock.

    Attributes:
        fold: Makes steps of the events.
        finished: Steps that the fold has finished; whoever takes some removes them.
        lock: Held while the fold reads. Not reentrant: nothing under it runs the script's code.
    """

    def __init__(
        self, method: str | None, first_site: int, readers: list[Callable[[bytes], object]]
    ) -> None:
        self.finished, self._readers = list[Step](), readers
        emit = self.finished.append
        self.fold = Fold(table.rows, emit, method, first_site, together=emit)
        self.lock, self._ring = allocate_lock(), allocate_lock()
        self._position = self._offset = self._backlog = self._lost = 0
        # The first chunk is read from the offset on; the others follow it.
        self._buffer, self._chunks = b"", list[bytes]()

    def feed(self) -> None:
        """Fold all events that were recorded so far."""
        self._feed(None)

    def feed_briefly(self) -> None:
        """Fold events for at most ``FOLDING_NS``, with rests for the script's threads."""
        until = recorder.now() + FOLDING_NS
        while self._feed(EVENTS_AT_ONCE) and recorder.now() < until:
            sleep(REST_SECONDS)

    def spill(self) -> None:
        """Empty the ring, which is nearly full: events come faster than ticks fold them."""
        with self._ring:
            if self._backlog < BACKLOG:
                self._drain()

    def _feed(self, events: int | None) -> bool:
        """Fold the next ``events``, or all; returns whether there are more."""
        with self.lock:
            data, lost = self._next(events)
            self.fold.feed(data, lost)
            for read in self._readers:
                read(data)
            return bool(self._backlog)

    def _next(self, events: int | None) -> tuple[bytes, int]:
        """The next events, and how many were lost before them."""
        with self._ring:
            self._drain()
            if self._offset >= len(self._buffer) or events is None:
                self._chunks.insert(0, self._buffer[self._offset :])
                self._buffer, self._offset = b"".join(self._chunks), 0
                self._chunks.clear()
            end = None if events is None else self._offset + events * EVENT_BYTES
            data = self._buffer[self._offset : end]
            self._offset += len(data)
            self._backlog -= len(data)
            lost, self._lost = self._lost, 0
        return data, lost

    def _drain(self) -> None:
        data, self._position, lost = recorder.drain(STRUCTURE, self._position)
        self._chunks.append(data)
        self._backlog += len(data)
        self._lost += lost
