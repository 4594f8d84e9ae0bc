"""What events that were timed say of all those that were not.

A few events of each kind are timed, in sittings of some in a row, time and again: where the
script's own work has filled the caches, none is like those of a tight loop.
"""

from __future__ import annotations

from collections import deque

#: How many events in a row are timed at a time, and how many where one begins within so many ns of
#: that before: the second half of those tells what one costs that finds the caches its own.
AT_A_TIME = 5
DENSE, DENSE_NS = 32, 20_000
#: No more than one event in so many is timed, but for the first few: where the processor has slept,
#: reading its time twice takes longer than the event, and would show in the script's own times.
SELDOM = 16
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


def _middle(ns: list[int]) -> float:
    """The mean of the middle half."""
    ordered = sorted(ns)
    middle = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    return sum(middle) / len(middle)


class Sitting:
    """Some events of one place in a row, as they are timed.

    Attributes:
        taken: What each of them took, in ns.
        dense: They follow each other at once.
    """

    __slots__ = ("_before", "dense", "taken")

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.dense = False
        self._before = 0

    def __call__(self, began: int, ended: int) -> bool:
        """Take in when an event began and ended; returns whether these are enough."""
        taken = self.taken
        taken.append(ended - began)
        if len(taken) == AT_A_TIME:  # By now those that had something to find out are over.
            self.dense = began - self._before < DENSE_NS
        self._before = began
        return len(taken) >= (DENSE if self.dense else AT_A_TIME)

    @property
    def counted(self) -> list[int]:
        """What those took that are like all others: what timed the first was new to the caches."""
        return self.taken[len(self.taken) // 2 if self.dense else 1 :]


class Sittings:
    """What the events of one probe have cost, by sittings.

    The very first is kept apart: it finds out what the others need not. Of the others the middle
    half counts: the garbage collector, or another thread, may have come between.
    """

    __slots__ = ("_began", "_events", "_first", "_ns", "_rare", "_since", "_sitting", "_warm")

    def __init__(self) -> None:
        self._sitting: list[Sitting] = []
        self._rare: deque[int] = deque(maxlen=_KEPT)
        self._first: int | None = None
        self._ns = 0.0
        self._events = self._warm = self._since = self._began = 0

    def due(self, fired: int) -> bool:
        """Whether another may begin, after so many events of the probe."""
        return fired - self._began >= SELDOM * sum(len(one.taken) for one in self._sitting)

    def begin(self, fired: int) -> None:
        """A sitting begins, after so many events of the probe; that before is worked off."""
        self._work_off(None)
        self._began = fired

    def end(self, fired: int) -> None:
        """There will be no other, after so many events: the last stands for the rest of them."""
        self._work_off(fired)

    def _work_off(self, until: int | None) -> None:
        taken = [one for one in self._sitting if one.taken]
        ended = self._began + sum(len(one.taken) for one in taken)
        self._sitting = []
        if self._first is None and taken:
            self._first = taken[0].taken[0]
            del taken[0].taken[0]
        counted = [ns for one in taken for ns in one.counted]
        if counted:
            until = ended if until is None else until
            events, self._since = max(1, until - self._since), until
            self._ns += events * _middle(counted)
            self._events += events
            self._warm += events if any(one.dense for one in taken) else 0
        else:
            self._rare.extend(ns for one in taken for ns in one.taken)

    def place(self) -> Sitting:
        """What is to be told of the events of one place of the probe in this sitting."""
        one = Sitting()
        self._sitting.append(one)
        return one

    @property
    def warm(self) -> float:
        """Which part of the events found the caches filled with themselves."""
        return self._warm / self._events if self._events else 0.0

    @property
    def each_ns(self) -> float | None:
        """What an event costs that is not the first; ``None`` when none was timed."""
        if self._events:
            return self._ns / self._events
        return _middle(list(self._rare)) if self._rare else None

    @property
    def once_ns(self) -> float:
        """What the first event cost more than the others do."""
        return max(0.0, (self._first or 0) - (self.each_ns or 0.0))
