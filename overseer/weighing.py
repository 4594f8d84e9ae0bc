"""What events cost the script, weighed where they happen.

An event comes when the script's own work has filled the caches, and then costs several times what
it costs in a tight loop. So no loop can tell: a few of a run's own events are timed, those of a
kind stand for all of it, and the rest pay nothing for that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from .clock import Clock

#: How many events in a row are timed at a time.
AT_A_TIME = 4
#: One in so many of the events that the script itself gives is timed.
ONE_IN = 16
#: What an event costs that inserted code notes by itself, of one that a listener takes.
NOTED = 0.5
_KEPT = 256


class Sampled:
    """What the events of one kind have cost, from those that were timed.

    The first is kept apart: it finds out what the others need not. Of the others the longest few
    are left out: the garbage collector came between.
    """

    __slots__ = ("_first", "_taken")

    def __init__(self) -> None:
        self._first: int | None = None
        self._taken: deque[int] = deque(maxlen=_KEPT)

    def __call__(self, ns: int) -> None:
        """Take in what one event took."""
        if self._first is None:
            self._first = ns
        else:
            self._taken.append(ns)

    @property
    def each_ns(self) -> float | None:
        """What an event costs that is not the first; ``None`` when none was timed."""
        ordered = sorted(self._taken)
        usual = ordered[: len(ordered) - len(ordered) // 16]
        return sum(usual) / len(usual) if usual else None

    @property
    def once_ns(self) -> float:
        """What the first event cost more than the others do."""
        return max(0.0, (self._first or 0) - (self.each_ns or 0.0))

    def cost_ns(self, events: int, else_ns: float = 0.0) -> float:
        """What so many events have cost together.

        Args:
            events: How many there were.
            else_ns: What to think that one costs when none but the first was timed.
        """
        if not events:
            return 0.0
        each = self.each_ns
        rest = else_ns if each is None else each
        return (rest if self._first is None else self._first) + rest * (events - 1)


class Weighed:
    """A way into a stream on which one in :data:`ONE_IN` events is timed.

    Args:
        push: Takes an event.
        now: Reads the clock, in nanoseconds.

    Attributes:
        events: How many there have been.
        sampled: What they have cost.
    """

    def __init__(self, push: Callable[[dict[str, object]], object], now: Callable[[], int]) -> None:
        self._push, self._now = push, now
        self.events = 0
        self.sampled = Sampled()

    def __call__(self, event: dict[str, object]) -> None:
        """Push an event."""
        self.events += 1
        if self.events % ONE_IN > 1:
            self._push(event)
            return
        begun = self._now()
        try:
            self._push(event)
        finally:
            self.sampled(self._now() - begun)


class Account:
    """What voir has cost a run: what was charged to it, and all of its thread but the script.

    Args:
        clock: The machine's clocks.
        since_ns: What this thread had used of the processor when voir began; now, if not given.
    """

    def __init__(self, clock: Clock, since_ns: int | None = None) -> None:
        self._clock = clock
        self._thread = threading.get_ident()
        self._since = clock.cpu_ns() if since_ns is None else since_ns
        self._own_ns = self._charged_ns = self._within_ns = 0
        self._inside = False
        self._samples: dict[int, Sampled] = {}

    def charge(self, ns: int) -> None:
        """Add processor time; on the script's own thread only what voir used within the script."""
        own = threading.get_ident() == self._thread
        if self._inside or not own:
            self._charged_ns += ns
            self._within_ns += ns if own else 0

    @contextmanager
    def script(self) -> Iterator[None]:
        """Within, the time of this thread is the script's."""
        self._own_ns += self._clock.cpu_ns() - self._since
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            self._since = self._clock.cpu_ns()

    @property
    def charged_ns(self) -> int:
        """All of it so far, but for events."""
        return self.outside_ns + self._charged_ns

    @property
    def outside_ns(self) -> int:
        """What this thread has used before and after the script, or between its parts."""
        if self._inside or threading.get_ident() != self._thread:
            return self._own_ns
        return self._own_ns + self._clock.cpu_ns() - self._since

    def now_ns(self) -> int:
        """A clock to weigh events by: processor time, for other programs are not voir's cost.

        It stands still while something is charged, so that this does not count twice.
        """
        return self._clock.cpu_ns() - self._within_ns

    def sampled(self, number: int) -> Sampled:
        """What is known of the events of the probe of this number."""
        return self._samples.setdefault(number, Sampled())

    def events_ns(
        self, fired: dict[int, int], inserted_ns: float, noted: dict[int, int] | None = None
    ) -> float:
        """What probes' events have cost.

        Args:
            fired: How many there were, by the probe's number.
            inserted_ns: What each costs besides the time of its listeners.
            noted: How many of them inserted code has noted by itself: what those cost cannot be
                weighed, and is taken for :data:`NOTED` of what the others do.
        """
        reading = self.reading_ns()
        known = [each for one in list(self._samples.values()) if (each := one.each_ns) is not None]
        usual = sum(known) / len(known) if known else 0.0
        total = 0.0
        for probe, n in fired.items():
            quick = min(n, noted.get(probe, 0)) if noted else 0
            of = self.sampled(probe)
            each = usual if of.each_ns is None else of.each_ns
            total += of.cost_ns(n - quick, usual) + (inserted_ns - reading) * (n - quick)
            total += max(0.0, each + inserted_ns - reading) * NOTED * quick
        return max(0.0, total)

    def once_ns(self, way: Weighed) -> float:
        """What events have cost that will not cost it again: the first of each kind.

        Args:
            way: By which events come that no probe has seen.
        """
        return way.sampled.once_ns + sum(one.once_ns for one in list(self._samples.values()))

    def given_ns(self, way: Weighed) -> float:
        """What the events have cost that came by ``way``."""
        return max(0.0, way.sampled.cost_ns(way.events) - self.reading_ns() * way.events)

    def reading_ns(self) -> int:
        """What it takes to read the clock, which is in every event that was timed."""
        times = [self.now_ns() for _ in range(20)]
        return min(b - a for a, b in pairwise(times))
