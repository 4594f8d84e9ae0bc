"""Courses of step times from ``steps.npy``: means of consecutive steps, for comparing runs."""

from __future__ import annotations

from array import array

from ..errors import VoirError
from ..model.facts import number, part
from ..model.summary import COURSE
from ..recorder.sites import PARTS
from .steps import steps_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .reading import Run


def with_courses(
    run: Run, report: Callable[[VoirError], object] = lambda error: None
) -> dict[str, Any]:
    """The facts of a run, with each task's course of step times computed from its ``steps.npy``.

    Without such a file, as for records of schema 1, the course of ``run.json`` stays.

    Args:
        run: The run.
        report: Receives the error if the file is damaged.
    """
    tasks = {task: facts for task, facts in part(run.facts, "tasks").items() if part(facts)}
    times = {task: array("d") for task in tasks}
    first = {task: number(facts, "rate.skipped") or 0 for task, facts in tasks.items()}
    try:
        steps = steps_of(run.path, run.facts)
        if steps is None:
            return run.facts
        for rows in steps.stretches():
            if (task := rows.task) in times:
                each = map(sum, zip(*(rows[name] for name in PARTS), strict=True))
                kept = zip(rows["step"], each, strict=True)
                times[task].extend(ns for step, ns in kept if step > first[task])
    except VoirError as error:
        report(error)
        return run.facts
    found = {
        task: {**facts, "step_seconds": {**part(facts, "step_seconds"), "course": _course(course)}}
        if (course := times[task])
        else facts
        for task, facts in tasks.items()
    }
    return {**run.facts, "tasks": {**part(run.facts, "tasks"), **found}}


def _course(times: array[float]) -> dict[str, Any]:
    length = -(-len(times) // COURSE)
    blocks = (times[at : at + length] for at in range(0, len(times), length))
    return {"steps": length, "means": [sum(block) / len(block) / 1e9 for block in blocks]}
