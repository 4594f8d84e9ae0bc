"""Whether memory keeps growing: samples over a run of any length, in constant space."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

#: Samples kept; when they are full every other one goes, and only every other one is taken.
KEPT = 128
#: Fewer samples say nothing.
FEWEST = 12
#: Growth that is worth a word: so many bytes, and so much of what there was.
LEAST_BYTES, LEAST_SHARE = 64 << 20, 0.1

#: Tells from when to when steps have been made so far, in seconds by the clock of the samples; None
#: while there are none.
Stepped = Callable[[], tuple[float, float] | None]


class Grown(NamedTuple):
    """How much memory grew, and in how many seconds."""

    bytes: float
    seconds: float


class Growth:
    """Tells memory that goes on growing from memory that has found its level.

    Only the time counts in which steps are made: what is read into memory before is no leak. Its
    first quarter fills caches and pools, so it does not count either. The rest grows when each of
    its quarters has a higher median than the one before, by a similar amount.

    Args:
        stepped: When that time is; a run without steps counts as a whole.
    """

    def __init__(self, stepped: Stepped = lambda: None) -> None:
        self._stepped = stepped
        self._kept: list[tuple[float, float]] = []
        self._every = 1
        self._seen = 0

    def add(self, seconds: float, bytes_used: float) -> None:
        """Take in one sample.

        Args:
            seconds: When it was taken, by any clock.
            bytes_used: What was in use.
        """
        self._begin()
        if self._seen % self._every == 0:
            self._kept.append((seconds, bytes_used))
            if len(self._kept) >= KEPT:
                del self._kept[1::2]
                self._every *= 2
        self._seen += 1

    @property
    def tells(self) -> bool:
        """Whether there are enough samples to tell."""
        return len(self._within()) >= FEWEST

    def grown(self) -> Grown | None:
        """The growth behind the first quarter; None if it levelled off, or is not worth a word."""
        within = self._within()
        later = within[len(within) // 4 :]
        if len(within) < FEWEST or later[-1][0] <= later[0][0]:
            return None
        n = len(later)
        levels = [_median([b for _, b in later[i * n // 4 : (i + 1) * n // 4]]) for i in range(4)]
        rises = [after - before for before, after in pairwise(levels)]
        total = later[-1][1] - later[0][1]
        if total < max(LEAST_BYTES, LEAST_SHARE * later[0][1]) or min(rises) < max(rises) / 4:
            return None
        return Grown(total, later[-1][0] - later[0][0])

    def _begin(self) -> None:
        """Forget what was before the steps, so that those have all the space."""
        stepped = self._stepped()
        if stepped is not None and self._kept and self._kept[0][0] < stepped[0]:
            self._kept = [each for each in self._kept if each[0] >= stepped[0]]
            self._every, self._seen = 1, 0

    def _within(self) -> list[tuple[float, float]]:
        """The samples of the time that counts."""
        stepped = self._stepped()
        if stepped is None:
            return self._kept
        return [each for each in self._kept if stepped[0] <= each[0] <= stepped[1]]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
