"""What events cost the script, weighed where they happen.

An event comes when the script's own work has filled the caches, and then costs several times what
it costs in a tight loop. So no loop can tell: a few of a run's own events are timed, time and
again, each sitting stands for the events since that before, and the rest pay nothing for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import inf
from typing import NamedTuple

from .clock import Clock
from .sittings import Sampled, Sittings

#: One in so many of the events that the script itself gives is timed.
ONE_IN = 16
#: What an event costs that inserted code notes by itself, of one that a listener takes.
NOTED = 0.5
#: The most of an event, in ns, that puts lines of the script's out of the caches: some two thousand
#: of them, at 10 ns each. A listener that works for longer finds its own there, displaces no more.
DISPLACING_NS = 20_000


class Inserted(NamedTuple):
    """What inserted code costs for an event besides the time of those who listen, in ns.

    Attributes:
        cold: When the script's own work has filled the caches.
        warm: In a loop that does little else.
    """

    cold: float
    warm: float

    @property
    def displacing(self) -> float:
        """What an event costs in all, of what it takes itself, when it displaces the script's own.

        What it takes longer than in a loop of its own is spent on filling the caches; and each
        line that it loads there puts out one of the script's, which is loaded once more.
        """
        return max(1.0, 2 - self.warm / self.cold) if self.cold > 0 else 1.0


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


class Turns:
    """What turns of a loop cost that voir itself goes through, events and all, by some of them.

    Args:
        account: What they are added to.
        way: By which their events come, which are not to be counted once more.
    """

    __slots__ = ("_account", "_began", "_done", "_events", "_ns", "_way", "_weight")

    def __init__(self, account: Account, way: Weighed) -> None:
        self._account, self._way = account, way
        self._done = self._ns = 0
        self._weight = 1
        self._began, self._events = account.now_ns(), way.events

    def begin(self) -> None:
        """The script's work is over; one in :data:`ONE_IN` turns is timed, at first more."""
        done = self._done = self._done + 1
        if done % ONE_IN and done & (done - 1):
            return
        self._weight, self._ns, self._events = min(done, ONE_IN), 0, self._way.events
        self._began = self._account.now_ns()

    def end(self) -> None:
        """The script's work begins."""
        if self._weight:
            self.pause()
            events = (self._way.events - self._events) * self._weight
            self._account.turned(max(0, self._ns) * self._weight, events)
            self._weight = 0

    def pause(self) -> None:
        """What follows is the script's."""
        if self._weight:
            self._ns += self._account.now_ns() - self._began

    def resume(self) -> None:
        """It is over."""
        if self._weight:
            self._began = self._account.now_ns()


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
        self._own_ns = self._charged_ns = self._within_ns = self._turned_ns = 0
        self._turned_events = self._ran_ns = self._began_ns = 0
        self._fired_ns = self._hooked_ns = self._displacing_ns = 0.0
        self._inside = False
        self._sittings: dict[int, Sittings] = {}

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
        self._inside, self._began_ns = True, self._clock.now_ns()
        try:
            yield
        finally:
            self._inside = False
            self._ran_ns += self._clock.now_ns() - self._began_ns
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

    def sitting(self, number: int) -> Sittings:
        """What is known of the events of the probe of this number."""
        return self._sittings.setdefault(number, Sittings())

    def events_ns(
        self,
        fired: dict[int, int],
        inserted_ns: Inserted,
        noted: dict[int, int] | None = None,
        unheard: dict[int, int] | None = None,
    ) -> float:
        """What probes' events have cost: no more than the script took.

        Args:
            fired: How many there were, by the probe's number.
            inserted_ns: What each costs besides the time of its listeners.
            noted: How many of them inserted code has noted by itself: what those cost cannot be
                weighed, and is taken for :data:`NOTED` of what the others do.
            unheard: How many of them nobody heard: they cost no more than being counted.
        """
        for probe, n in fired.items():
            self.sitting(probe).end(n)
        reading = self.reading_ns()
        known = [e for one in list(self._sittings.values()) if (e := one.each_ns) is not None]
        usual = sum(known) / len(known) if known else 0.0
        total = 0.0
        for probe, n in fired.items():
            n -= unheard.get(probe, 0) if unheard else 0
            quick = min(n, noted.get(probe, 0)) if noted else 0
            of = self.sitting(probe)
            each = usual if of.each_ns is None else of.each_ns
            around = inserted_ns.warm * of.warm + inserted_ns.cold * (1 - of.warm) - reading
            one = max(0.0, each + around)
            again = (inserted_ns.displacing - 1) * (1 - of.warm) * min(one, DISPLACING_NS)
            total += (one + again) * (n - quick + NOTED * quick) + of.once_ns
        self._fired_ns = min(total, self._room_ns)
        return self._fired_ns

    @property
    def _room_ns(self) -> float:
        """What the script took, but for what was charged: all its events took no longer."""
        ran = self._ran_ns + (self._clock.now_ns() - self._began_ns if self._inside else 0)
        return max(0.0, ran - self._charged_ns) if ran else inf

    def once_ns(self, way: Weighed) -> float:
        """What events have cost that will not cost it again: the first of each kind.

        Args:
            way: By which events come that no probe has seen.
        """
        return way.sampled.once_ns + sum(one.once_ns for one in list(self._sittings.values()))

    def turned(self, ns: int, events: int) -> None:
        """Add what turns of a loop of voir's own have cost, with the events in them."""
        self._turned_ns += ns
        self._turned_events += events

    def hooked(self, ns: int, times: int, events: int) -> None:
        """Add what a hook of voir's has cost that others call, with the events in it.

        Args:
            ns: What it took.
            times: As how many this one counts.
            events: How many events it gave, which are not to be counted once more.
        """
        self._hooked_ns += ns * times
        self._displacing_ns += min(ns, DISPLACING_NS) * times
        self._turned_events += events * times

    def hooked_ns(self, displacing: float) -> float:
        """What hooks have cost, together with events, if they are asked for before.

        Args:
            displacing: As :attr:`Inserted.displacing`: they find the caches filled by others, too.
        """
        cost = self._hooked_ns + (displacing - 1) * self._displacing_ns
        cost = min(cost, self._room_ns - self._fired_ns)
        self._fired_ns += cost
        return cost

    def given_ns(self, way: Weighed, around_ns: float = 0.0) -> float:
        """What the events have cost that came by ``way``, and the loops of voir's own.

        Together with those of probes, if they are asked for before, no more than the script took.

        Args:
            way: The way.
            around_ns: What each costs before it comes.
        """
        events = max(0, way.events - self._turned_events)
        each = around_ns - self.reading_ns()
        cost = self._turned_ns + max(0.0, way.sampled.cost_ns(events) + each * events)
        return min(cost, self._room_ns - self._fired_ns)

    def reading_ns(self) -> int:
        """What it takes to read the clock, which is in every event that was timed."""
        times = [self.now_ns() for _ in range(20)]
        return min(b - a for a, b in pairwise(times))
