"""Finds changes in the mean of a series by PELT.

Source: Killick, Fearnhead, Eckley, "Optimal detection of changepoints with a linear computational
cost" (JASA 107, 2012).
"""

from __future__ import annotations

from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def changepoints(values: Sequence[float], weights: Sequence[float], penalty: float) -> list[int]:
    """The begins of the segments of the best piecewise constant fit; the first is 0.

    Minimises the weighted squared error plus ``penalty`` for each segment, exactly.

    Args:
        values: The series.
        weights: The number of observations behind each value.
        penalty: The error that another segment must save.
    """
    total = [0.0, *accumulate(v * w for v, w in zip(values, weights, strict=True))]
    square = [0.0, *accumulate(v * v * w for v, w in zip(values, weights, strict=True))]
    weight = [0.0, *accumulate(weights)]
    best, begins, tried = [-penalty], [0], [0]
    for end in range(1, len(values) + 1):
        t, q, w = total[end], square[end], weight[end]
        costs = [best[s] + q - square[s] - (t - total[s]) ** 2 / (w - weight[s]) for s in tried]
        least = min(costs)
        begins.append(tried[costs.index(least)])
        best.append(least + penalty)
        # A begin that is worse by more than the penalty can never become the best.
        tried = [s for s, cost in zip(tried, costs, strict=True) if cost <= best[end]]
        tried.append(end)
    found, end = [], len(values)
    while end > 0:
        end = begins[end]
        found.append(end)
    return found[::-1]
