"""What voir itself adds to a run: events at their calibrated cost, and the time of its own work.

Timing every event would cost as much as the event. So what an event costs is measured beforehand
on the machine at hand, and multiplied; work that is rare (reducers, sinks, timers) is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..clock import Clock

_ROUNDS = 5


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
        self._charged_ns = 0

    def calibrate(self, kind: str, event: Callable[[], object], n: int = 200) -> float:
        """Measure what one event of a kind costs; nanoseconds.

        The least of five rounds counts: whatever else the machine does only adds.

        Args:
            kind: The kind of event.
            event: Does what one event does, to objects that are thrown away.
            n: How many make a round.
        """
        rounds = []
        for _ in range(_ROUNDS):
            begin = self._now()
            for _ in range(n):
                event()
            rounds.append((self._now() - begin) / n)
        self._each_ns[kind] = min(rounds)
        return self._each_ns[kind]

    def count(self, kind: str, events: Callable[[], int], each_ns: float | None = None) -> None:
        """Count events of a kind by asking ``events()`` how many there were."""
        self._events[kind] = events
        if each_ns is not None:
            self._each_ns[kind] = each_ns

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
        seconds = (events + self._charged_ns) / 1e9
        return Overhead(seconds, seconds / run_seconds if run_seconds > 0 else None)
