"""Where the mean of a series changes: PELT, and what it needs to hold against outliers.

Sources: Killick, Fearnhead, Eckley, "Optimal detection of changepoints with a linear
computational cost" (JASA 107, 2012) for the search; Barrett et al., "Virtual machine warmup
blows hot and cold" (OOPSLA 2017) for its use on warm-up; Fearnhead and Rigaill, "Changepoint
detection in the presence of outliers" (JASA 114, 2019) for bounding what one value can say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from .statistics import quantile

_WINDOW = 7
#: So many steps at either end have what is about them on one side only.
HALF = _WINDOW // 2
#: The 0.7 quantile of the absolute difference of two standard normals.
_Q70 = 1.0364 * math.sqrt(2)


def noise(values: Sequence[float], lag: int = 1) -> float:
    """Standard deviation of one value about a mean that may change, from successive differences.

    The 0.7 quantile is untouched by changes of the mean and by spikes at up to one value in
    seven, yet sees two modes that alternate.

    Args:
        values: The series.
        lag: How far apart the values are whose difference is taken.
    """
    steps = sorted(abs(b - a) for a, b in zip(values, values[lag:], strict=False))
    return quantile(steps, 0.7) / _Q70 if steps else 0.0


def clipped(values: Sequence[float], sigma: float) -> list[float]:
    """``values`` kept within three sigma of the median of the seven around each."""
    n, half, bound = len(values), HALF, 3 * sigma
    out = []
    for i, value in enumerate(values):
        start = max(0, min(i - half, n - _WINDOW))
        window = sorted(values[start : start + _WINDOW])
        middle = window[len(window) // 2]
        out.append(min(max(value, middle - bound), middle + bound))
    return out


def changepoints(values: Sequence[float], weights: Sequence[float], penalty: float) -> list[int]:
    """Where the segments of the best piecewise constant fit begin; the first is 0.

    Minimises the weighted squared error plus ``penalty`` for each segment, exactly (PELT).

    Args:
        values: The series.
        weights: How many observations each value stands for.
        penalty: The error that one more segment must save.
    """
    total = [0.0, *accumulate(v * w for v, w in zip(values, weights, strict=True))]
    square = [0.0, *accumulate(v * v * w for v, w in zip(values, weights, strict=True))]
    weight = [0.0, *accumulate(weights)]
    best = [-penalty]
    begins = [0]
    open_ = [0]
    for end in range(1, len(values) + 1):
        t, q, w = total[end], square[end], weight[end]
        costs = [best[s] + q - square[s] - (t - total[s]) ** 2 / (w - weight[s]) for s in open_]
        least = min(costs)
        begins.append(open_[costs.index(least)])
        best.append(least + penalty)
        # A begin that is worse now by more than a segment's penalty can never win again.
        open_ = [s for s, cost in zip(open_, costs, strict=True) if cost <= best[end]]
        open_.append(end)
    found, end = [], len(values)
    while end > 0:
        end = begins[end]
        found.append(end)
    return found[::-1]
