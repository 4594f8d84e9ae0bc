"""A clock for tests."""

from __future__ import annotations

from overseer.clock import Clock


class FakeClock(Clock):
    """A clock that stands still until told: tests have exact durations and never sleep."""

    def __init__(self, now_ns: int = 0, wall_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now = now_ns
        self._wall = wall_ns

    def now_ns(self) -> int:
        """The fake monotonic time."""
        return self._now

    def wall_ns(self) -> int:
        """The fake time of day; it moves with the monotonic time."""
        return self._wall

    def cpu_ns(self) -> int:
        """Fake processor time: all of the monotonic time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks."""
        self._now += round(seconds * 1e9)
        self._wall += round(seconds * 1e9)
