"""Finds the parts of a step that explain why a side's mean step is longer or shorter."""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from .facts import number, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import Facts

#: A part that has this share of the change is named alone; otherwise the next one too.
ENOUGH = 0.8


class StepChange(NamedTuple):
    """How the mean step of a side, or what is done in it, differs from the reference's.

    Attributes:
        side: Its name.
        task: The task.
        step: The difference of the mean steps, in seconds.
        parts: The one or two parts with most of that difference, and theirs. If only the waits for
            other ranks differ, the part that differs most the other way, and ``communication``.
    """

    side: str
    task: str
    step: float
    parts: list[tuple[str, float]]


def step_change(
    before: Sequence[Facts], after: Sequence[Facts], least: float
) -> tuple[float, list[tuple[str, float]]] | None:
    """The difference of the mean steps, and the parts with most of it.

    Args:
        before: A task in each run of the reference.
        after: The same of a side.
        least: The smallest difference to explain, as a share of the reference's step.

    Returns:
        None if a run lacks the parts of its step, or neither the step nor its waits for other ranks
        differ.
    """
    seconds = [_mean_step(tasks) for tasks in (before, after)]
    if not all(seconds):
        return None
    a, b = seconds
    changes = {name: b.get(name, 0.0) - a.get(name, 0.0) for name in {**a, **b}}
    whole, least_seconds = sum(changes.values()), least * sum(a.values())
    if not whole or abs(whole) <= least_seconds:
        # Steps of ranks that wait for each other take equally long.
        waits = changes.pop("communication", 0.0)
        if not waits or abs(waits) <= least_seconds or not changes:
            return None
        most = min(changes.items(), key=lambda each: each[1] / waits)
        return whole, [most, ("communication", waits)]
    first, *rest = sorted(changes.items(), key=lambda each: each[1] / whole, reverse=True)
    more = [each for each in rest[:1] if each[1] / whole > 0 and first[1] / whole < ENOUGH]
    return whole, [first, *more]


def _mean_step(tasks: Sequence[Facts]) -> dict[str, float]:
    """Mean seconds of each part in a step, over the runs; empty if one lacks them."""
    every = [_seconds(task) for task in tasks]
    if not all(every):
        return {}
    names = dict.fromkeys(name for each in every for name in each)
    return {name: fmean(each.get(name, 0.0) for each in every) for name in names}


def _seconds(task: Facts) -> dict[str, float]:
    steps, split = number(task, "rate.n"), part(task, "breakdown")
    if not split:
        split = {name: number(task, f"{name}.seconds") for name in ("loading", "compute")}
    known = {name: value for name, each in split.items() if (value := number(each)) is not None}
    return {name: value / steps for name, value in known.items()} if steps and steps > 0 else {}
