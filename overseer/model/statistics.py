"""Quartiles; a fair sample of very many numbered values in constant memory, and the largest."""

from __future__ import annotations

import math
from random import Random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: A sample keeps this many values. Of more, the rank of its median is off by 1.1 % (one standard
#: error, 0.5 / sqrt(size)).
SIZE = 2048


def quantile(ordered: Sequence[float], q: float) -> float:
    """The ``q`` quantile of sorted values, interpolated between the two nearest.

    Hyndman and Fan's definition 7, which ``statistics.quantiles(method="inclusive")`` has too.

    Raises:
        IndexError: There are no values.
    """
    at = q * (len(ordered) - 1)
    low = int(at)
    part = at - low
    return ordered[low] if not part else ordered[low] * (1 - part) + ordered[low + 1] * part


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile of one value or more, in any order."""
    ordered = sorted(values)
    return quantile(ordered, 0.25), quantile(ordered, 0.5), quantile(ordered, 0.75)


class Sample:
    """A uniform sample of numbered tuples, each kept with its number.

    Reservoir sampling, Li's algorithm L (ACM TOMS 20, 1994): beyond ``size`` values nearly all
    cost one comparison. It has a seeded generator of its own, so the script's is untouched.

    Args:
        size: How many values are kept.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._random = Random(size)
        self._kept: list[tuple[int, tuple[float, ...]]] = []
        self._seen = self._next = 0
        self._w = 1.0

    def add(self, number: int, *value: float) -> None:
        """Take in one value with its number."""
        self._add(number, value)

    def _add(self, number: int, value: tuple[float, ...]) -> None:
        if len(self._kept) < self._size:
            self._kept.append((number, value))
            if len(self._kept) == self._size:
                self._next = self._seen
                self._skip()
        elif self._seen == self._next:
            self._kept[int(self._random.random() * self._size)] = (number, value)
            self._skip()
        self._seen += 1

    def extend(self, numbers: list[int], *columns: list[float]) -> None:
        """Take in several, their values by column."""
        at, behind = 0, len(numbers)
        while at < behind:
            if self._seen < self._next:
                passed = min(self._next - self._seen, behind - at)
                self._seen += passed
                at += passed
            elif len(self._kept) + 1 < self._size:
                end = min(behind, at + self._size - 1 - len(self._kept))
                values = zip(*[column[at:end] for column in columns], strict=True)
                self._kept += zip(numbers[at:end], values, strict=True)
                self._seen += end - at
                at = end
            else:
                self._add(numbers[at], tuple([column[at] for column in columns]))
                at += 1

    def since(self, number: int) -> list[tuple[float, ...]]:
        """The sampled values numbered ``number`` or later, in no order."""
        return [value for n, value in self._kept if n >= number]

    def _skip(self) -> None:
        """Draw which value is kept next."""
        self._w *= math.exp(math.log(1.0 - self._random.random()) / self._size)
        gap = math.log(1.0 - self._random.random()) / math.log1p(-self._w)
        self._next += math.floor(gap) + 1


class Longest:
    """The largest of numbered values from any number on, of as many as come.

    Those are kept that are larger than all after them: about ``log(n)`` of values in any order.

    Args:
        most: How many are kept; beyond it, of values that only fall, the first ones go.
    """

    def __init__(self, most: int = SIZE) -> None:
        self._most = most
        self._kept: list[tuple[int, float]] = []

    def add(self, number: int, value: float) -> None:
        """Take in the value of the next number."""
        kept = self._kept
        while kept and kept[-1][1] <= value:
            kept.pop()
        kept.append((number, value))
        if len(kept) > self._most:
            del kept[0]

    def extend(self, numbers: list[int], values: list[int]) -> None:
        """Take in several."""
        at = 0
        while at < len(values):  # Each turn passes over what is smaller than its value.
            left = values[at:]
            largest = max(left)
            at += left.index(largest)
            self.add(numbers[at], float(largest))
            at += 1

    def since(self, number: int) -> float | None:
        """The largest value numbered ``number`` or later."""
        for at, value in self._kept:
            if at >= number:
                return value
        return None
