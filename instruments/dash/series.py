"""A history of fixed size for a run of any length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


class Series:
    """Means of equal stretches of the run, oldest first; never more than ``capacity`` of them.

    When the buckets are full, neighbours are merged and every later bucket covers twice as many
    samples. A bucket never changes once it is full, so a drawn history does not shimmer.

    Args:
        capacity: The most buckets kept; an even number.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._means: list[float] = []
        self._span = 1
        self._open: list[float] = []

    def add(self, value: float) -> None:
        """Append one sample."""
        self._open.append(value)
        if len(self._open) < self._span:
            return
        self._means.append(mean(self._open))
        self._open.clear()
        if len(self._means) >= self._capacity:
            self._means = merge(self._means, 2)
            self._span *= 2

    def points(self) -> tuple[float, ...]:
        """The history, the unfinished last bucket included."""
        rest = (mean(self._open),) if self._open else ()
        return (*self._means, *rest)


def mean(values: Sequence[float]) -> float:
    """The mean; one value that is not finite makes it so, or a diverged loss would hide."""
    if not all(map(math.isfinite, values)):
        return math.nan
    return math.fsum(value / len(values) for value in values)  # The sum itself may overflow.


def merge(values: Sequence[float], size: int) -> list[float]:
    """Means of consecutive groups of ``size``; the last group may be short."""
    return [mean(values[i : i + size]) for i in range(0, len(values), size)]


def spread(values: Sequence[float], room: int) -> list[float]:
    """``values`` over exactly ``room`` cells: means of them, or the same one again and again."""
    if room < 1:
        return []
    starts = [index * len(values) // room for index in range(room + 1)]
    return [mean(values[low : max(low + 1, high)]) for low, high in pairwise(starts)]


def squeeze(values: Sequence[float], room: int) -> list[float]:
    """At most ``room`` means of ``values``.

    Groups grow by powers of two, so that one more sample changes the last cell only.
    """
    size = 1
    if room < 1:
        return []
    while len(values) > room * size:
        size *= 2
    return merge(values, size) if size > 1 else list(values)
