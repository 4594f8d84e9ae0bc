"""Quantiles; a uniform sample, and the maximum, of any number of values in constant memory."""

from __future__ import annotations

import math
from random import Random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Size of a sample. The standard error of its median's rank is 1.1 % (0.5 / sqrt(size)).
SAMPLE_SIZE = 2048


def quantile(ordered: Sequence[float], q: float) -> float:
    """The ``q`` quantile of sorted values, interpolated between the two nearest.

    Hyndman and Fan's definition 7, as in ``statistics.quantiles(method="inclusive")``.

    Raises:
        IndexError: ``ordered`` is empty.
    """
    at = q * (len(ordered) - 1)
    low = int(at)
    part = at - low
    return ordered[low] if not part else ordered[low] * (1 - part) + ordered[low + 1] * part


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile of at least one value, in any order."""
    ordered = sorted(values)
    return quantile(ordered, 0.25), quantile(ordered, 0.5), quantile(ordered, 0.75)


class Sample:
    """A uniform sample of numbered tuples.

    Reservoir sampling, Li's algorithm L (ACM TOMS 20, 1994): after ``size`` values, most cost one
    comparison. It has its own seeded generator, so the script's is unaffected.

    Args:
        size: Size of the sample.
    """

    def __init__(self, size: int = SAMPLE_SIZE) -> None:
        self._size = size
        self._random = Random(size)
        self._kept: list[tuple[int, tuple[float, ...]]] = []
        self._seen = self._next = 0
        self._w = 1.0

    def add(self, number: int, *value: float) -> None:
        """Add a value with its number."""
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
        """Add several values, by column."""
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
        """The sampled values numbered ``number`` or later, in any order."""
        return [value for n, value in self._kept if n >= number]

    def _skip(self) -> None:
        """Draw the next value to keep."""
        self._w *= math.exp(math.log(1.0 - self._random.random()) / self._size)
        gap = math.log(1.0 - self._random.random()) / math.log1p(-self._w)
        self._next += math.floor(gap) + 1


class Longest:
    """The maximum of numbered values from any number on.

    It keeps the values that exceed all later ones: about ``log(n)`` of randomly ordered values.

    Args:
        most: Maximum count of values kept; of more, in a falling series, the first are dropped.
    """

    def __init__(self, most: int = SAMPLE_SIZE) -> None:
        self._most = most
        self._kept: list[tuple[int, float]] = []

    def add(self, number: int, value: float) -> None:
        """Add the value of the next number."""
        kept = self._kept
        while kept and kept[-1][1] <= value:
            kept.pop()
        kept.append((number, value))
        if len(kept) > self._most:
            del kept[0]

    def extend(self, numbers: list[int], values: list[int]) -> None:
        """Add several values."""
        at = 0
        while at < len(values):  # Each turn skips the values below the next maximum.
            left = values[at:]
            largest = max(left)
            at += left.index(largest)
            self.add(numbers[at], float(largest))
            at += 1

    def since(self, number: int) -> float | None:
        """The maximum of the values numbered ``number`` or later."""
        for at, value in self._kept:
            if at >= number:
                return value
        return None
