"""How sure a ratio is: over repeated runs, and within a single run of each kind.

Steps of one run are not independent, so what is drawn are blocks of neighbours; and however many
there are, they say nothing of the next run. Only repeats do: each run is then one value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import fmean, variance

Interval = tuple[float, float]

#: Student's t, 97.5 %, for 1 to 20 degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_Z = 1.959964
#: How often a run is drawn anew.
DRAWS = 1000
#: Fewer parts than this say nothing of a course.
LEAST = 10


def ratio_over_runs(before: Sequence[float], after: Sequence[float]) -> Interval | None:
    """The 95 % interval of ``after / before``, each value being that of one run.

    Welch's t on the logarithms; where one side has a single run, the spread of the other stands
    for both. ``None`` without a repeat, or when a value is not above 0.
    """
    if len(before) + len(after) < 3 or not before or not after or min(*before, *after) <= 0:
        return None
    logs = [math.log(value) for value in before], [math.log(value) for value in after]
    error, freedom = _spread(*logs)
    reach = student(freedom) * error
    centre = fmean(logs[1]) - fmean(logs[0])
    return math.exp(centre - reach), math.exp(centre + reach)


def _spread(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The standard error of the difference of two means, and its degrees of freedom."""
    if len(before) == 1 or len(after) == 1:
        several = after if len(before) == 1 else before
        of_both = variance(several) * (1 / len(before) + 1 / len(after))
        return math.sqrt(of_both), len(several) - 1
    parts = [variance(side) / len(side) for side in (before, after)]
    whole = sum(parts)
    if not whole:
        return 0.0, len(before) + len(after) - 2
    sizes = len(before) - 1, len(after) - 1
    return math.sqrt(whole), whole**2 / sum(v**2 / n for v, n in zip(parts, sizes, strict=True))


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t, rounded up between whole degrees of freedom."""
    whole = max(1, math.floor(freedom))
    return _T[whole - 1] if whole <= len(_T) else _Z + (_Z**3 + _Z) / (4 * whole)


def ratio_within(before: Sequence[float], after: Sequence[float]) -> Interval | None:
    """The 95 % interval of ``mean(after) / mean(before)`` of two series; ``None`` of short ones.

    A circular block bootstrap (Politis and Romano 1992), blocks as long as the root of the series:
    what slows one step slows its neighbours too.
    """
    if min(len(before), len(after)) < LEAST or min(*before, *after) <= 0:
        return None
    random = Random(len(before))
    pairs = zip(_means(before, random), _means(after, random), strict=True)
    drawn = sorted(b / a for a, b in pairs)
    tail = DRAWS // 40
    return drawn[tail], drawn[-tail - 1]


def _means(series: Sequence[float], random: Random) -> list[float]:
    length = round(math.sqrt(len(series)))
    turned = [*series, *series[: length - 1]]
    blocks = [sum(turned[start : start + length]) for start in range(len(series))]
    count = -(-len(series) // length)
    return [sum(random.choices(blocks, k=count)) / (count * length) for _ in range(DRAWS)]
