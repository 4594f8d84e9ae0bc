"""What a piece of voir's own code costs on the machine at hand, measured when the run is over.

What cannot be timed where it happens, as it would cost as much as what is timed, is done again to
objects that are thrown away: after the script's own work would have filled the caches, when it
costs two to three times what it costs in a tight loop, or in such a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

from .statistics import quantile

#: More than the second level caches of today's processors hold.
_CACHES = 2 << 20


def cold_ns(now: Callable[[], int], event: Callable[[], object], n: int = 20) -> float:
    """What an event costs where something else has filled the caches, in nanoseconds.

    The median of ``n`` counts, less that of reading the clock. Takes about a tenth of a millisecond
    for each.

    Args:
        now: Reads a clock, in nanoseconds.
        event: Does what one event does.
        n: How often to measure.
    """
    filling = bytearray(_CACHES)
    return max(0.0, _median(now, event, n, filling) - _median(now, int, n, filling))


def _median(
    now: Callable[[], int], event: Callable[[], object], n: int, filling: bytearray
) -> float:
    taken = []
    for _ in range(n):
        bytes(filling)
        begin = now()
        event()
        taken.append(now() - begin)
    return quantile(sorted(taken), 0.5)


def warm_ns(now: Callable[[], int], event: Callable[[], object], n: int = 1000) -> float:
    """What it costs in a loop that does nothing else, whose caches are its own, in nanoseconds."""
    begin = now()
    for _ in repeat(None, n):
        event()
    return (now() - begin) / n
