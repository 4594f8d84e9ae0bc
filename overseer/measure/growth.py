"""Whether memory keeps growing: samples over a run of any length, in constant space."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

#: Samples kept; when they are full every other one goes, and only every other one is taken.
KEPT = 128
#: Fewer samples say nothing.
FEWEST = 12
#: Growth that is worth a word: so many bytes, and so much of what there was.
LEAST_BYTES, LEAST_SHARE = 64 << 20, 0.1


class Grown(NamedTuple):
    """How much memory grew, and in how many seconds."""

    bytes: float
    seconds: float


class Growth:
    """Tells memory that goes on growing from memory that has found its level.

    The first quarter of a run fills caches and pools, so it does not count. The rest grows when
    each of its quarters has a higher median than the one before, by a similar amount.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[float, float]] = []
        self._every = 1
        self._seen = 0

    def add(self, seconds: float, bytes_used: float) -> None:
        """Take in one sample.

        Args:
            seconds: When it was taken, by any clock.
            bytes_used: What was in use.
        """
        if self._seen % self._every == 0:
            self._kept.append((seconds, bytes_used))
            if len(self._kept) >= KEPT:
                del self._kept[1::2]
                self._every *= 2
        self._seen += 1

    @property
    def tells(self) -> bool:
        """Whether there are enough samples to tell."""
        return len(self._kept) >= FEWEST

    def grown(self) -> Grown | None:
        """The growth behind the first quarter; None if it levelled off, or is not worth a word."""
        later = self._kept[len(self._kept) // 4 :]
        if not self.tells or later[-1][0] <= later[0][0]:
            return None
        n = len(later)
        levels = [_median([b for _, b in later[i * n // 4 : (i + 1) * n // 4]]) for i in range(4)]
        rises = [after - before for before, after in pairwise(levels)]
        total = later[-1][1] - later[0][1]
        if total < max(LEAST_BYTES, LEAST_SHARE * later[0][1]) or min(rises) < max(rises) / 4:
            return None
        return Grown(total, later[-1][0] - later[0][0])


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
