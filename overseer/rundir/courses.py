"""Courses of step times from ``steps.npy``: means of consecutive steps, for comparing runs."""

from __future__ import annotations

from array import array

from ..errors import VoirError
from ..model.facts import number, part
from ..recorder.sites import PARTS
from .steps import STEPS_FILE, read_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .reading import Run

#: Means per course.
MAX_MEANS = 100


def with_courses(
    run: Run, report: Callable[[VoirError], object] = lambda error: None
) -> dict[str, Any]:
    """The facts of a run, with each task's course of step times computed from its ``steps.npy``.

    Without such a file, as for records of schema 1, the course of ``run.json`` stays.

    Args:
        run: The run.
        report: Receives the error if the file is damaged.
    """
    if not (run.path / STEPS_FILE).exists():
        return run.facts
    tasks = {task: facts for task, facts in part(run.facts, "tasks").items() if part(facts)}
    times = {task: array("d") for task in tasks}
    first = {task: number(facts, "rate.skipped") or 0 for task, facts in tasks.items()}
    names = part(run.facts, "steps", "names")
    try:
        for row in read_steps(run.path / STEPS_FILE):
            task = str(names.get(row["task"], row["task"]))
            if task in times and row["step"] > first[task]:
                times[task].append(sum(row[name] for name in PARTS))
    except VoirError as error:
        report(error)
        return run.facts
    found = {
        task: {**facts, "step_seconds": {**part(facts, "step_seconds"), "course": _course(each)}}
        if (each := times[task])
        else facts
        for task, facts in tasks.items()
    }
    return {**run.facts, "tasks": {**part(run.facts, "tasks"), **found}}


def _course(times: array[float]) -> dict[str, Any]:
    length = -(-len(times) // MAX_MEANS)
    blocks = (times[at : at + length] for at in range(0, len(times), length))
    return {"steps": length, "means": [sum(block) / len(block) / 1e9 for block in blocks]}
