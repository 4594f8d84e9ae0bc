"""What voir itself adds to a run: events at their calibrated cost, and the time of its own work.

Timing every event would cost as much as the event. So what an event costs is measured on the
machine at hand, and multiplied; work that is rare (reducers, sinks, timers) is timed.

An event comes when the script's own work has filled the caches: it then costs two to three times
what it costs in a tight loop. So each measurement is made after the caches have been filled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..clock import Clock
from .statistics import quantile

#: More than the second level caches of today's processors hold.
_CACHES = 2 << 20


@dataclass(frozen=True)
class Overhead:
    """voir's own cost.

    Attributes:
        seconds: Time it added.
        share: The same as a part of the run.
    """

    seconds: float
    share: float | None


class OwnCost:
    """The account of voir's own cost.

    Args:
        clock: The host's clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now_ns
        self._each_ns: dict[str, float] = {}
        self._events: dict[str, Callable[[], int]] = {}
        self._measured: list[Callable[[], float]] = []
        self._charged_ns = 0

    def calibrate(self, kind: str, event: Callable[[], object], n: int = 60) -> float:
        """Measure what one event of a kind costs; nanoseconds.

        The median counts, less that of reading the clock. Takes about a tenth of a millisecond
        for each measurement.

        Args:
            kind: The kind of event.
            event: Does what one event does, to objects that are thrown away.
            n: How many measurements to make.
        """
        filling = bytearray(_CACHES)
        each = self._median(event, n, filling) - self._median(int, n, filling)
        self._each_ns[kind] = max(0.0, each)
        return self._each_ns[kind]

    def _median(self, event: Callable[[], object], n: int, filling: bytearray) -> float:
        taken = []
        for _ in range(n):
            bytes(filling)
            begin = self._now()
            event()
            taken.append(self._now() - begin)
        return quantile(sorted(taken), 0.5)

    def count(self, kind: str, events: Callable[[], int], each_ns: float | None = None) -> None:
        """Count events of a kind by asking ``events()`` how many there were."""
        self._events[kind] = events
        if each_ns is not None:
            self._each_ns[kind] = each_ns

    def measured(self, nanoseconds: Callable[[], float]) -> None:
        """Count time that somebody else measures, as the step model does its own."""
        self._measured.append(nanoseconds)

    def charge(self, nanoseconds: int) -> None:
        """Add time that was measured; on a thread of voir's own, its processor time."""
        self._charged_ns += max(0, nanoseconds)

    def timed(self, work: Callable[..., object], every: int = 1) -> Callable[..., object]:
        """``work``, with its time charged; of many calls one in ``every`` is timed for all.

        Args:
            work: A reducer or a sink.
            every: How many calls share one timing.
        """
        calls = 0

        def charged(*args: object) -> object:
            nonlocal calls
            calls += 1
            if calls % every:
                return work(*args)
            begin = self._now()
            try:
                return work(*args)
            finally:
                self.charge((self._now() - begin) * every)

        return charged

    def overhead(self, run_seconds: float) -> Overhead:
        """The account so far, beside a run that took ``run_seconds``, voir's time included."""
        events = sum(self._each_ns.get(kind, 0.0) * n() for kind, n in self._events.items())
        events += sum(nanoseconds() for nanoseconds in self._measured)
        seconds = (events + self._charged_ns) / 1e9
        return Overhead(seconds, seconds / run_seconds if run_seconds > 0 else None)
