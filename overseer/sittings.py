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
#: How many are left alone after the first few of a sitting, if those come within so many ns of each
#: other, before some more are timed: no fewer than are recorded whole as a run begins.
AWHILE, FREQUENT_NS = 100, 200_000
#: How many those are at least.
LATER = 16
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


class Lot:
    """Some events of those of which one in so many is timed, wherever it happens.

    Those that differ are not told apart, so that nearly all count: the longest few do not, of many.
    """

    __slots__ = ("_close", "_ended", "_last", "_pairs", "taken")

    def __init__(self) -> None:
        self.taken: list[int] = []
        self._ended = self._close = self._pairs = 0
        self._last = -2  # That before the first is none.

    def __call__(self, began: int, ended: int, seen: int) -> None:
        """Take in when the ``seen``-th event began and ended."""
        self.taken.append(ended - began)
        if seen == self._last + 1:
            self._pairs += 1
            self._close += began - self._ended < DENSE_NS
        self._last, self._ended = seen, ended

    @property
    def each_ns(self) -> float:
        """What one of them costs."""
        ordered = sorted(self.taken)
        usual = ordered[: len(ordered) - len(ordered) // 64]
        return sum(usual) / len(usual)

    @property
    def warm(self) -> float:
        """Which part of them follows another at once."""
        return self._close / self._pairs if self._pairs else 0.0


class Sitting:
    """Some events of one place, as they are timed: a few in a row, of frequent ones a few later on.

    The first few come as the sitting has just begun, on another thread, or the run has, with code
    that python has yet to specialise and events that are recorded whole: they are like those that
    follow only where all are rare. So where it can be had soon, there is a second look.

    Attributes:
        timed: How many events were timed.
        passed: How many there have been, those included that were left alone.
    """

    __slots__ = ("_before", "_dense", "_later", "_taken", "passed", "timed")

    def __init__(self) -> None:
        self._taken: list[int] = []
        self._later: list[int] | None = None
        self._dense = [False, False]
        self._before = self.passed = self.timed = 0

    def __call__(self, began: int, ended: int) -> int | None:
        """Take in when an event began and ended.

        Returns:
            How many to leave alone before the next is timed; ``None`` when these are enough.
        """
        later = self._later is not None
        taken = self._taken if self._later is None else self._later
        few = LATER if later else AT_A_TIME
        taken.append(ended - began)
        self.timed += 1
        self.passed += 1
        since, self._before = began - self._before, began
        if len(taken) == few:  # By now those that had something to find out are over.
            self._dense[later] = since < DENSE_NS
        if len(taken) < (DENSE if self._dense[later] else few):
            return 0
        if later or since >= FREQUENT_NS:
            return None
        self._later = []
        self.passed += AWHILE
        return AWHILE

    @property
    def dense(self) -> bool:
        """Whether they follow each other at once."""
        return self._dense[bool(self._counted(1))]

    @property
    def counted(self) -> list[int]:
        """What those took that are like all others."""
        return self._counted(1) or self._counted(0)

    def _counted(self, look: int) -> list[int]:
        """Those of one look: what timed its first was new to the caches."""
        taken = (self._later or []) if look else self._taken
        return taken[len(taken) // 2 if self._dense[look] else 1 :]

    def take_first(self) -> int:
        """The very first, which is no longer among the others."""
        return self._taken.pop(0)

    @property
    def rare(self) -> list[int]:
        """All there are, where those that count are too few."""
        return self._taken


class Sittings:
    """What the events of one probe have cost, by sittings; or by lots of them.

    The very first is kept apart: it finds out what the others need not. Of the others the middle
    half counts: the garbage collector, or another thread, may have come between.
    """

    __slots__ = (
        "_began",
        "_events",
        "_first",
        "_lot",
        "_ns",
        "_rare",
        "_since",
        "_sitting",
        "_warm",
    )

    def __init__(self) -> None:
        self._sitting: list[Sitting] = []
        self._rare: deque[int] = deque(maxlen=_KEPT)
        self._first: int | None = None
        self._lot = Lot()
        self._ns = self._warm = 0.0
        self._events = self._since = self._began = 0

    def due(self, fired: int) -> bool:
        """Whether another may begin, after so many events of the probe."""
        return fired - self._began >= SELDOM * sum(one.timed for one in self._sitting)

    def begin(self, fired: int) -> None:
        """A sitting begins, after so many events of the probe; that before is worked off."""
        ended = self._began + sum(one.passed for one in self._sitting)
        self._work_off(min(ended, fired))
        self._began = fired

    def end(self, fired: int) -> None:
        """There will be no other, after so many events: the last stands for the rest of them."""
        self._work_off(fired)
        self._work_off_lot(fired)

    def __call__(self, began: int, ended: int, seen: int) -> None:
        """Take in when the ``seen``-th event began and ended, which is one of a lot."""
        if self._first is None:
            self._first = ended - began
            return
        self._lot(began, ended, seen)
        if len(self._lot.taken) >= _KEPT:
            self._work_off_lot(seen)

    def _work_off_lot(self, until: int) -> None:
        lot, self._lot = self._lot, Lot()
        if lot.taken:
            self._stand_for(until, lot.each_ns, lot.warm)

    def _stand_for(self, until: int, each_ns: float, warm: float) -> None:
        """The events since the last that were stood for cost so much each."""
        events, self._since = max(1, until - self._since), until
        self._ns += events * each_ns
        self._events += events
        self._warm += events * warm

    def _work_off(self, until: int) -> None:
        taken = [one for one in self._sitting if one.timed]
        self._sitting = []
        if self._first is None and taken:
            self._first = taken[0].take_first()
        counted = [ns for one in taken for ns in one.counted]
        if counted:
            self._stand_for(until, _middle(counted), any(one.dense for one in taken))
        else:
            self._rare.extend(ns for one in taken for ns in one.rare)

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
