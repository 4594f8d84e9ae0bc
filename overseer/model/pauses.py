"""Pauses: time within a task that is no part of its steps, by kind."""

from __future__ import annotations

from collections import deque

#: Kinds, as ``run.json`` names them.
DECLARED, EVALUATION, CHECKPOINT = "declared", "evaluation", "checkpoint"
BETWEEN_EPOCHS, UNEXPLAINED = "between epochs", "unexplained"

#: How many steps tell what is usual, and how many there must be before anything is unusual.
USUAL, FEW = 64, 8
#: Nothing shorter is a pause for its length alone, in nanoseconds.
LEAST_NS = 10_000_000


class Pauses:
    """How many pauses of each kind there were, and how long they took."""

    __slots__ = ("kinds",)

    def __init__(self) -> None:
        self.kinds: dict[str, list[int]] = {}

    def add(self, kind: str, ns: int) -> None:
        """Count one."""
        kept = self.kinds.setdefault(kind, [0, 0])
        kept[0] += 1
        kept[1] += ns

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(n for n, _ in self.kinds.values())

    @property
    def ns(self) -> int:
        """How long they took together."""
        return sum(ns for _, ns in self.kinds.values())


class Typical:
    """What is usual of the last 64 values, and by how much one exceeds it.

    A value is unusual above the largest of 5 medians, 3 times what 7 of 8 stay below, and 10 ms.
    """

    __slots__ = ("_last", "add", "extend")

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=USUAL)
        #: Take in a value, and several.
        self.add, self.extend = self._last.append, self._last.extend

    def excess(self, value: int) -> int:
        """By how much ``value`` exceeds the usual, 0 if it does not."""
        n = len(self._last)
        if value <= LEAST_NS or n < FEW:
            return 0
        known = sorted(self._last)
        usual = known[n // 2]
        unusual = value > max(5 * usual, 3 * known[n * 7 // 8], LEAST_NS)
        return value - usual if unusual else 0
