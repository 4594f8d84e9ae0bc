"""Pauses: time of a task that belongs to no step, by kind (R19)."""

from __future__ import annotations

from collections import deque

#: Kinds, as ``run.json`` names them.
DECLARED_PAUSE, EVALUATION_PAUSE, CHECKPOINT_PAUSE = "declared", "evaluation", "checkpoint"
EPOCH_PAUSE, UNEXPLAINED_PAUSE = "between epochs", "unexplained"

#: The number of recent steps that define the usual, and the minimum for anything to be unusual.
USUAL_STEPS, MIN_USUAL = 64, 8
#: Minimum length of an unexplained pause, ns.
MIN_PAUSE_NS = 10_000_000


class Pauses:
    """Count and total time of pauses, by kind."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        self.kinds: dict[str, list[int]] = {}

    def add(self, kind: str, ns: int) -> None:
        """Add a pause."""
        kept = self.kinds.setdefault(kind, [0, 0])
        kept[0] += 1
        kept[1] += ns

    @property
    def count(self) -> int:
        """The number of pauses."""
        return sum(n for n, _ in self.kinds.values())

    @property
    def ns(self) -> int:
        """Their total time."""
        return sum(ns for _, ns in self.kinds.values())


class Typical:
    """The last 64 values, and the excess of a new one over their median.

    A value is unusual if it exceeds 5 medians, 3 times the 7/8 quantile, and 10 ms.
    """

    __slots__ = ("_last", "add", "extend")

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=USUAL_STEPS)
        #: Add a value, or several.
        self.add, self.extend = self._last.append, self._last.extend

    def excess(self, value: int) -> int:
        """The excess of an unusual ``value`` over the median; 0 for a usual one."""
        n = len(self._last)
        if value <= MIN_PAUSE_NS or n < MIN_USUAL:
            return 0
        known = sorted(self._last)
        usual = known[n // 2]
        unusual = value > max(5 * usual, 3 * known[n * 7 // 8], MIN_PAUSE_NS)
        return value - usual if unusual else 0
