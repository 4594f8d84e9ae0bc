"""Pooled observations as Milabench summarises them, so that tables can be compared."""

from __future__ import annotations

import math
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: From so many observations on, the least and the greatest one are dropped.
TRIM_FROM = 5


class Trimmed(NamedTuple):
    """The trimmed rates of a task on one side.

    Attributes:
        n: Observations that are left.
        mean: Their mean.
        std: Their standard deviation, over ``n``.
        sem: ``std / sqrt(n)``. As steps of one process are not independent, it is too small for
            a verdict.
    """

    n: int
    mean: float
    std: float
    sem: float


def trimmed(observations: Sequence[float]) -> Trimmed | None:
    """Summarise observations without one minimum and one maximum; None without any."""
    kept = sorted(observations)
    if len(kept) >= TRIM_FROM:
        kept = kept[1:-1]
    if not kept:
        return None
    n, mean = len(kept), math.fsum(kept) / len(kept)
    std = math.sqrt(math.fsum((each - mean) ** 2 for each in kept) / n)
    return Trimmed(n, mean, std, std / math.sqrt(n))
