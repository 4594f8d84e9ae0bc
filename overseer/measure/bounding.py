"""Outliers among steps that are kept in blocks, bounded before their times are added up.

Of a sum nobody can tell whether all steps were a little slower or one of them a lot. What bounds
them goes by the noise of the first steps, which are kept one by one; so these can be treated alike,
and the two be compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from .changepoints import noise

#: Steps that are bounded by the same median.
CHUNK = 32
#: A difference smaller than this part of the usual time is no noise: clocks have their grain.
GRAIN = 0.002


def grain(values: Sequence[float]) -> float:
    """The least noise that is believed of such values."""
    return max(GRAIN * sorted(values)[len(values) // 2], 1e-30)


def reach(single: Sequence[float]) -> float:
    """How far from the usual a step may be: three sigma of these, without their first quarter."""
    settled = single[len(single) // 4 :]
    return 3 * max(noise(settled), grain(settled))


def bounded_sum(values: Sequence[float], within: float) -> float:
    """The sum of some steps, ``CHUNK`` say, each kept within so much of their median."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    low, high = middle - within, middle + within
    if ordered[0] >= low and ordered[-1] <= high:
        return sum(values)
    begin, end = bisect_left(ordered, low), bisect_right(ordered, high)
    return low * begin + sum(ordered[begin:end]) + high * (len(ordered) - end)


def bounded_sums(
    values: Sequence[float], span: int, within: float, chunk: int = CHUNK
) -> list[float]:
    """Those of blocks of ``span`` steps, a multiple of ``chunk``; what is over is left out."""
    whole = len(values) // span * span
    parts = [bounded_sum(values[i : i + chunk], within) for i in range(0, whole, chunk)]
    each = span // chunk
    return [sum(parts[i : i + each]) for i in range(0, len(parts), each)]
