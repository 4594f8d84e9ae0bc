"""Estimates the noise of a series whose mean may change, and clips outliers.

Source of the clipping: Fearnhead and Rigaill, "Changepoint detection in the presence of outliers"
(JASA 114, 2019).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort

from .statistics import quantile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

#: Number of steps clipped around one median before they are summed.
CLIPPED_TOGETHER = 32
#: Minimum noise relative to the median, as clocks have a resolution.
MIN_NOISE: Final = 0.002
#: Maximum distance of a value from its neighbours' median, in standard deviations.
_BOUND: Final = 3
_WINDOW: Final = 7
#: The 0.7 quantile of the absolute difference of two standard normal values.
_Q70 = 1.0364 * math.sqrt(2)


def noise(values: list[float]) -> float:
    """The standard deviation of one value about a mean that may change; always above 0.

    It comes from the 0.7 quantile of successive differences: robust against changes of the mean and
    spikes in up to one value of seven, but sensitive to two alternating modes.
    """
    n, found = len(values), 1e-30
    if not n:
        return found
    differences: list[float] = []
    for i in range(1, n):
        difference = values[i] - values[i - 1]
        differences.append(difference if difference > 0 else -difference)
    if differences:
        differences.sort()
        spread = quantile(differences, 0.7) / _Q70
        if spread > found:
            found = spread
    least = MIN_NOISE * sorted(values)[n // 2]
    if least < 0:
        least = -least
    return least if least > found else found


def clipped(values: list[float], sigma: float) -> list[float]:
    """Clip values to three ``sigma`` around the median of the seven values around each."""
    n, bound, half = len(values), _BOUND * sigma, _WINDOW // 2
    found: list[float] = []
    if not n:
        return found
    window = sorted(values[:_WINDOW])
    middle = window[len(window) // 2]
    for i in range(n):
        value = values[i]
        if half < i < n - half:  # The window moves on.
            del window[bisect_left(window, values[i - half - 1])]
            insort(window, values[i + half])
            middle = window[half]
        if value < middle - bound:
            value = middle - bound
        if value > middle + bound:
            value = middle + bound
        found.append(value)
    return found


def bounded_sum(values: Sequence[float], sigma: float) -> float:
    """The sum of values, each clipped to three ``sigma`` around their median.

    A sum hides outliers, so steps are clipped before they are summed, ``CLIPPED_TOGETHER`` at a
    time.
    """
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    low, high = middle - _BOUND * sigma, middle + _BOUND * sigma
    if ordered[0] >= low and ordered[-1] <= high:
        return sum(values)
    begin, end = bisect_left(ordered, low), bisect_right(ordered, high)
    return low * begin + sum(ordered[begin:end]) + high * (len(ordered) - end)
