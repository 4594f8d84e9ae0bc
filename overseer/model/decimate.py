"""Fewer points for a chart, of which no peak is missing."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def stretches(n: int, most: int) -> Iterator[tuple[int, int]]:
    """Divide ``n`` places into at most ``most`` runs of about equal length: begins and ends."""
    runs = min(n, most)
    ends = [n * at // runs for at in range(1, runs + 1)] if runs else []
    return zip([0, *ends], ends, strict=False)


def extremes(values: Sequence[float], most: int) -> list[int]:
    """Places of the first, the least and the greatest value of each run of values, in order.

    Args:
        values: The values; those that are not finite are skipped.
        most: The number of places to return, at most.
    """
    if not all(map(math.isfinite, values)):
        finite = [at for at, value in enumerate(values) if math.isfinite(value)]
        return [finite[at] for at in extremes([values[at] for at in finite], most)]
    if len(values) <= most:
        return [*range(len(values))]
    found = list[int]()
    for begin, end in stretches(len(values), max(most // 2, 1)):
        run = values[begin:end]
        found += sorted({begin + run.index(min(run)), begin + run.index(max(run))})
    return found
