"""The one place where time is read.

Durations come from the monotonic clock; wall time is an anchor, read at the start of a run.
Everything that measures takes a :class:`Clock`, so that tests decide what time it is.
"""

from __future__ import annotations

import time

#: The monotonic clock in nanoseconds, as a plain C function for hot paths.
now_ns = time.perf_counter_ns


class Clock:
    """The machine's clocks: ``now_ns`` for durations, ``wall_ns`` for anchors."""

    #: Nanoseconds on the monotonic clock; only differences mean anything. The C function itself:
    #: a step reads it half a dozen times.
    now_ns = staticmethod(time.perf_counter_ns)

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; it may jump, so never subtract two of these."""
        return time.time_ns()

    def cpu_ns(self) -> int:
        """Processor nanoseconds the calling thread has used."""
        return time.thread_time_ns()


class FakeClock(Clock):
    """A clock that stands still until told: tests have exact durations and never sleep."""

    def __init__(self, now_ns: int = 0, wall_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now = now_ns
        self._wall = wall_ns

    def now_ns(self) -> int:
        """The fake monotonic time."""
        return self._now

    def wall_ns(self) -> int:
        """The fake time of day; it moves with the monotonic time unless set apart."""
        return self._wall

    def cpu_ns(self) -> int:
        """Fake processor time: all of the monotonic time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks."""
        self._now += round(seconds * 1e9)
        self._wall += round(seconds * 1e9)

    def set_wall(self, wall_ns: int) -> None:
        """Make the time of day jump, as NTP or an administrator might."""
        self._wall = wall_ns
