"""The processes of a job, and their steps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from ..errors import VoirError
from ..model.facts import main_task_name, part, signalled
from ..rundir.reading import Run
from ..rundir.steps import COMPILED, Stretch, steps_of
from .straggler import BLOCKS, OWN_PARTS, PAUSED, RankSteps, most_steps

#: The least rows that are read together. Ranks have the same steps at about the same share of
#: their rows.
TOGETHER = 200
_COLUMNS = (*OWN_PARTS, "communication")
_SOURCE = re.compile(r"\[/\S+:\d+\] ")


class MemberSteps(NamedTuple):
    """Steps of a task of one process.

    Attributes:
        of: As the search for stragglers reads them.
        losses: The loss of each; NaN if unknown.
    """

    of: RankSteps
    losses: list[float]


def members_of(run: Run) -> tuple[Run, ...]:
    """The processes of a job that have a record."""
    return tuple(one for one in run.ranks if one.facts)


def why_failed(facts: Mapping[str, Any]) -> str:
    """How a process ended, in a few words."""
    if facts.get("ended_by"):
        return str(facts["ended_by"])
    status = facts.get("exit_status")
    if isinstance(status, int) and status < 0:
        return signalled(-status)
    # Of gloo's errors, the place in its source comes first.
    return _SOURCE.sub("", str(facts.get("error") or f"exit status {status}"))


def main_task_of(members: tuple[Run, ...]) -> str | None:
    """The main task of a job: that of its first process that has one."""
    return next((name for each in members if (name := main_task_name(each.facts))), None)


def steps_of_members(
    members: tuple[Run, ...], task: str, report: Callable[[VoirError], object]
) -> list[MemberSteps]:
    """Steps of a task in each process that recorded some.

    Of many steps, runs of some that are spread over the whole run.

    Args:
        members: The processes.
        task: The task.
        report: Receives the error of a file that is damaged, which is left out.
    """
    found = []
    for member in members:
        try:
            steps = _read(member, task, most_steps(len(members)))
        except VoirError as error:
            report(error)
            continue
        if steps is not None:
            found.append(steps)
    return found


def _read(member: Run, task: str, most: int) -> MemberSteps | None:
    steps = steps_of(member.path, member.facts)
    if steps is None:
        return None
    numbers: list[int] = []
    losses: list[float] = []
    columns: dict[str, list[float]] = {name: [] for name in _COLUMNS}
    before = (0, 0)
    for stretch in steps.stretches(most, max(1, min(BLOCKS, most // TOGETHER))):
        if stretch.task != task:
            continue
        kept = [at for at, flags in enumerate(stretch["flags"]) if not flags & COMPILED]
        pauses = _pauses(stretch, before)
        before = stretch["step"][-1], stretch["end"][-1]
        read: dict[str, list[Any]] = {**columns, "step": numbers, "loss": losses}
        for name, values in read.items():
            of = pauses if name == PAUSED else stretch[name]
            values.extend(of if len(kept) == len(of) else [of[at] for at in kept])
    return MemberSteps(RankSteps(member.rank, numbers, columns), losses) if numbers else None


def _pauses(stretch: Stretch, before: tuple[int, int]) -> list[int]:
    """The pauses in each step, and between it and the step before it.

    Args:
        stretch: The steps.
        before: Number and end of the step before them.
    """
    numbers = [before[0], *stretch["step"]]
    ends = [before[1], *stretch["end"]]
    return [
        pause + (max(start - end, 0) if b == a + 1 and a else 0)
        for pause, start, end, (a, b) in zip(
            stretch[PAUSED], stretch["start"], ends, pairwise(numbers), strict=False
        )
    ]


def same_losses(steps: list[MemberSteps]) -> bool | None:
    """Whether all processes have the same losses; None if that is unknown."""
    equal = different = 0
    first, *rest = steps
    known = dict(zip(first.of.numbers, first.losses, strict=True))
    for each in rest:
        for step, loss in zip(each.of.numbers, each.losses, strict=True):
            other = known.get(step, math.nan)
            if math.isfinite(loss) and math.isfinite(other):
                equal += loss == other
                different += loss != other
    if not rest or equal + different == 0:
        return None
    return equal > different


def index_of(member: Run) -> int | None:
    """Which of the different batches a process sees, if it says so."""
    data = part(member.facts, "parallel").get("data")
    with suppress(TypeError, ValueError, IndexError, KeyError):
        return int(data[0])  # type: ignore[index]
    return None
