"""Median and spread in bounded memory: exact for the first thousands, a fair sample of more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")

#: Up to this many values quantiles are exact; of more, the median is that of a uniform sample,
#: whose rank is off by 1.1 % (one standard error, 0.5 / sqrt(size)).
SIZE = 2048


@dataclass(frozen=True)
class Summary:
    """What there is to say about many values; all but the counts are absent (None) without any.

    Attributes:
        n: Values counted.
        skipped: Values left out on purpose: warm-up.
    """

    n: int
    skipped: int
    median: float | None = None
    q1: float | None = None
    q3: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None


def quantile(ordered: Sequence[float], q: float) -> float:
    """The ``q`` quantile of sorted values, interpolated between the two nearest (Hyndman-Fan 7).

    Raises:
        IndexError: When there are no values.
    """
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    part = at - low
    return ordered[low] if not part else ordered[low] * (1 - part) + ordered[high] * part


class Sample(Generic[T]):
    """A uniform sample of numbered values, each of which remembers its number.

    Reservoir sampling, Li's algorithm L (ACM TOMS 20, 1994): beyond ``size`` values nearly all
    cost one comparison. The generator is its own, seeded: the script's randomness is untouched.

    Args:
        size: How many values are kept.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._random = Random(size)
        self._kept: list[tuple[int, T]] = []
        self._seen = 0
        self._next = 0
        self._w = 1.0

    def extend(self, numbers: Sequence[int], values: Sequence[T]) -> None:
        """Take in values with their numbers."""
        room = self._size - len(self._kept)
        if room > 0:
            self._kept.extend(zip(numbers[:room], values[:room], strict=False))
            if len(self._kept) == self._size:
                self._next = self._size - 1  # The place of the last value that was kept.
                self._skip()
        first = self._seen
        self._seen += len(values)
        while max(room, 0) <= self._next - first < len(values) and len(self._kept) == self._size:
            at = self._next - first
            self._kept[int(self._random.random() * self._size)] = (numbers[at], values[at])
            self._skip()

    def since(self, number: int) -> list[T]:
        """The sampled values numbered ``number`` or later, in no order."""
        return [value for n, value in self._kept if n >= number]

    def _skip(self) -> None:
        self._w *= math.exp(math.log(1.0 - self._random.random()) / self._size)
        gap = math.log(1.0 - self._random.random()) / math.log1p(-self._w)
        self._next += math.floor(gap) + 1


class Statistics:
    """Running summary of a stream of values.

    Minimum, maximum and mean are exact; median and quartiles as :data:`SIZE` says. Values that
    are not finite are not counted.

    Args:
        skip: How many values to leave out first.
        size: How many values are kept for the quantiles.
    """

    def __init__(self, skip: int = 0, size: int = SIZE) -> None:
        self._left = skip
        self._skipped = 0
        self._n = 0
        self._sum = 0.0
        self._min = math.inf
        self._max = -math.inf
        self._sample: Sample[float] = Sample(size)

    def __call__(self, value: float) -> None:
        """Take in one value."""
        self.extend((value,))

    def extend(self, values: Iterable[float]) -> None:
        """Take in many."""
        taken = [value for value in values if math.isfinite(value)]
        left = min(self._left, len(taken))
        self._left -= left
        self._skipped += left
        taken = taken[left:]
        if taken:
            self._sample.extend(range(self._n, self._n + len(taken)), taken)
            self._n += len(taken)
            self._sum += math.fsum(taken)
            self._min = min(self._min, *taken)
            self._max = max(self._max, *taken)

    def summary(self) -> Summary:
        """What the values say so far."""
        if not self._n:
            return Summary(0, self._skipped)
        q1, median, q3 = quartiles(sorted(self._sample.since(0)))
        mean = self._sum / self._n
        return Summary(self._n, self._skipped, median, q1, q3, mean, self._min, self._max)


def quartiles(ordered: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third quartile of sorted values."""
    return quantile(ordered, 0.25), quantile(ordered, 0.5), quantile(ordered, 0.75)


def at_least(k: int, n: int, share: float) -> float:
    """The probability of ``k`` or more of ``n``, each with the probability ``share``: binomial.

    By logarithms, for the number of ways to choose is beyond what a float holds from some 1,000 on.

    Args:
        k: How many.
        n: Of how many.
        share: More than 0 and less than 1.
    """
    ways = math.lgamma(n + 1)
    yes, no = math.log(share), math.log1p(-share)
    return sum(
        math.exp(ways - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * yes + (n - i) * no)
        for i in range(k, n + 1)
    )
