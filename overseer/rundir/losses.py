"""Losses by step from ``steps.npy``, for comparing runs."""

from __future__ import annotations

import math

from ..errors import VoirError
from .steps import steps_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .reading import Run

#: Steps that are read of a run: of more, as many in runs that are spread over it.
MOST_STEPS, SPREAD_OVER = 20_000, 20


def losses_by_step(run: Run, report: Callable[[VoirError], object]) -> dict[str, dict[int, float]]:
    """The finite losses of each task, by the number of the step; of a job, its first rank's.

    Args:
        run: The run.
        report: Receives the error if the file is damaged.
    """
    found: dict[str, dict[int, float]] = {}
    one = run.ranks[0] if run.ranks else run
    try:
        steps = steps_of(one.path, one.facts)
        for rows in steps.stretches(MOST_STEPS, SPREAD_OVER) if steps is not None else ():
            pairs = zip(rows["step"], rows["loss"], strict=True)
            known = {step: loss for step, loss in pairs if math.isfinite(loss)}
            found.setdefault(rows.task, {}).update(known)
    except VoirError as error:
        report(error)
    return found
