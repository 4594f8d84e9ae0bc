"""Whether memory keeps growing: samples over a run of any length, in constant space."""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Samples kept; when they are full every other one goes, and only every other one is taken.
MAX_SAMPLES = 128
#: Fewer samples say nothing.
MIN_SAMPLES = 12
#: Growth worth reporting: so many bytes, and such a part of what there was.
MIN_GROWTH_BYTES, MIN_GROWTH_SHARE = 64 << 20, 0.1


class Growth:
    """Tells memory that goes on growing from memory that has found its level.

    Only the time between the first and the last step counts: what is read into memory before is no
    leak. Its first quarter fills caches and pools, so it does not count either. The rest grows if
    each of its quarters has a higher median than the one before, by a similar amount.

    Args:
        stepped: When the first step ended and the last one so far, in seconds by the clock of the
            samples; None while there is none. A run without steps counts as a whole.
    """

    def __init__(self, stepped: Callable[[], tuple[float, float] | None] = lambda: None) -> None:
        self._stepped = stepped
        self._kept: list[tuple[float, float]] = []
        self._every, self._seen = 1, 0

    def add(self, seconds: float, used: float) -> None:
        """Take in one sample: when it was taken, and how many bytes were in use."""
        stepped = self._stepped()
        if stepped is not None and self._kept and self._kept[0][0] < stepped[0]:
            self._kept = [sample for sample in self._kept if sample[0] >= stepped[0]]
            self._every, self._seen = 1, 0  # All of the space is for the time of the steps.
        if self._seen % self._every == 0:
            self._kept.append((seconds, used))
            if len(self._kept) >= MAX_SAMPLES:
                del self._kept[1::2]
                self._every *= 2
        self._seen += 1

    @property
    def known(self) -> bool:
        """Whether there are enough samples to tell."""
        return len(self._counted()) >= MIN_SAMPLES

    def grown(self) -> dict[str, float] | None:
        """By how many ``bytes`` in how many ``seconds``; None if it levelled off or is little."""
        counted = self._counted()
        later = counted[len(counted) // 4 :]
        if len(counted) < MIN_SAMPLES or later[-1][0] <= later[0][0]:
            return None
        n = len(later)
        quarters = (sorted(later[i * n // 4 : (i + 1) * n // 4], key=_used) for i in range(4))
        rises = [b - a for a, b in pairwise(_used(each[len(each) // 2]) for each in quarters)]
        total = later[-1][1] - later[0][1]
        if (
            total < max(MIN_GROWTH_BYTES, MIN_GROWTH_SHARE * later[0][1])
            or min(rises) < max(rises) / 4
        ):
            return None
        return {"bytes": total, "seconds": later[-1][0] - later[0][0]}

    def _counted(self) -> list[tuple[float, float]]:
        """The samples of the time that counts."""
        begin, end = self._stepped() or (float("-inf"), float("inf"))
        return [sample for sample in self._kept if begin <= sample[0] <= end]


def _used(sample: tuple[float, float]) -> float:
    return sample[1]
