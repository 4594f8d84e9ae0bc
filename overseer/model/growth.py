"""Detects memory that keeps growing, in constant space over a run of any length."""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Maximum count of samples. At the maximum every second one is dropped, and the interval doubles.
MAX_SAMPLES = 128
#: Minimum count of samples for a result.
MIN_SAMPLES = 12
#: The smallest growth to report, in bytes and as a share of the memory before.
MIN_GROWTH_BYTES, MIN_GROWTH_SHARE = 64 << 20, 0.1


class Growth:
    """Separates growing memory from memory that has levelled off.

    Only samples between the first and the last step count, without their first quarter: data that
    is loaded before, and caches that fill, are not leaks. Memory grows if the median rises from
    each quarter of the rest to the next, by similar amounts.

    Args:
        stepped: Returns the ends of the first and the latest step, in seconds by the samples'
            clock; None without steps, when all samples count.
    """

    def __init__(self, stepped: Callable[[], tuple[float, float] | None] = lambda: None) -> None:
        self._stepped = stepped
        self._kept: list[tuple[float, float]] = []
        self._every, self._seen = 1, 0

    def add(self, seconds: float, used: float) -> None:
        """Add a sample: its time in seconds, and the bytes in use."""
        stepped = self._stepped()
        if stepped is not None and self._kept and self._kept[0][0] < stepped[0]:
            self._kept = [sample for sample in self._kept if sample[0] >= stepped[0]]
            self._every, self._seen = 1, 0  # Use all space for the time of the steps.
        if self._seen % self._every == 0:
            self._kept.append((seconds, used))
            if len(self._kept) >= MAX_SAMPLES:
                del self._kept[1::2]
                self._every *= 2
        self._seen += 1

    @property
    def known(self) -> bool:
        """Whether there are enough samples."""
        return len(self._counted()) >= MIN_SAMPLES

    def grown(self) -> dict[str, float] | None:
        """The growth in ``bytes`` and its time in ``seconds``; None if levelled off or small."""
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
        """The samples between the first and the last step."""
        begin, end = self._stepped() or (float("-inf"), float("inf"))
        return [sample for sample in self._kept if begin <= sample[0] <= end]


def _used(sample: tuple[float, float]) -> float:
    return sample[1]
