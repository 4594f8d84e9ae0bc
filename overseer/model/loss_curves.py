"""Compares the losses of runs step by step: the same, within the seeds' band, or parted.

Runs with different seeds have different losses. Their band is made of means over parts of the run,
as losses of single steps vary with their batches.
"""

from __future__ import annotations

import math
from itertools import takewhile
from statistics import fmean
from typing import NamedTuple

from .intervals import student

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    #: The loss of each step, by its number.
    Curve = Mapping[int, float]

#: Losses that differ by a smaller share of their size are the same.
ROUNDING = 1e-5
#: Parts of a run whose mean losses are compared, and the half width of the band as a multiple of
#: the 95 % interval's.
LOSS_BLOCKS, BAND = 20, 2.0
THE_SAME, WITHIN_BAND, PARTED = "the same", "within the seeds' band", "parted"


class LossChange(NamedTuple):
    """How the losses of a side compare with the reference's.

    Attributes:
        side: Its name.
        task: The task.
        verdict: ``the same``, ``within the seeds' band`` or ``parted``.
        from_step: The first step that differs, if they parted.
        last_step: The last step that all runs have.
    """

    side: str
    task: str
    verdict: str
    from_step: int | None
    last_step: int


def loss_change(
    before: Sequence[Curve], after: Sequence[Curve]
) -> tuple[str, int | None, int] | None:
    """Compare the losses of a side with the reference's, over the steps that all runs have.

    - ``the same``: each run has the losses of a run of the reference.
    - ``within the seeds' band``: in the last part of the run, the means of both sides differ by
      less than twice the 95 % interval of their difference over runs.
    - ``parted``: by more in all parts from some step on; without a spread of repeated runs, from
      the first step that differs.

    Returns:
        Verdict, first step that differs, and last step; None without steps in common.
    """
    every = [*before, *after]
    steps = sorted(set.intersection(*(set(curve) for curve in every))) if every else []
    if not before or not after or not steps:
        return None
    if all(any(_first_unlike(a, b, steps) is None for a in before) for b in after):
        return THE_SAME, None, steps[-1]
    repeats = [(side[0], each) for side in (before, after) for each in side]
    if all(_first_unlike(a, b, steps) is None for a, b in repeats):  # The same seed.
        return PARTED, _first_unlike(before[0], after[0], steps), steps[-1]
    length = -(-len(steps) // LOSS_BLOCKS)
    blocks = [steps[at : at + length] for at in range(0, len(steps), length)]
    outside = [*takewhile(lambda block: _beyond(before, after, block), reversed(blocks))]
    return (PARTED, outside[-1][0], steps[-1]) if outside else (WITHIN_BAND, None, steps[-1])


def _first_unlike(a: Curve, b: Curve, steps: Sequence[int]) -> int | None:
    """The first step at which two runs have different losses."""
    return next(
        (at for at in steps if abs(a[at] - b[at]) > ROUNDING * max(abs(a[at]), abs(b[at]))), None
    )


def _beyond(before: Sequence[Curve], after: Sequence[Curve], steps: Sequence[int]) -> bool:
    """Whether the mean losses of two sides over some steps differ by more than the band."""
    means = ([fmean(curve[at] for at in steps) for curve in side] for side in (before, after))
    return beyond_band(*means)


def beyond_band(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether means of two sides, a value for each run, differ by more than twice the interval."""
    sides = [before, after]
    means = [fmean(side) for side in sides]
    freedom = max(1, sum(map(len, sides)) - 2)
    squares = sum((x - m) ** 2 for side, m in zip(sides, means, strict=True) for x in side)
    error = math.sqrt(squares / freedom * sum(1 / len(side) for side in sides))
    return abs(means[1] - means[0]) > BAND * student(freedom) * error
