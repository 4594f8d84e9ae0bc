"""The figures of a killed run, counted again from ``steps.npy``, which is newer than ``run.json``.

Rows become steps of the model, and :class:`~overseer.model.summary.Summary` computes from them what
it computes while a script runs.
"""

from __future__ import annotations

import math
from itertools import groupby, repeat
from operator import lt

from ..errors import VoirError
from ..model.alike import AT_NS, STEP_LAYOUT, Alike
from ..model.facts import at, number, ordered, part
from ..model.fold import Fold
from ..model.spans import parse_span
from ..model.steps import UNKNOWN, Step
from ..model.summary import Summary
from ..recorder.sites import PARTS
from .steps import (
    COMPILED,
    DEVICE_CLOCK,
    LOADED,
    LOSS_GIVEN,
    OF_BACKWARD,
    ROW,
    steps_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from .steps import Steps, Stretch

#: Figures of a task that rows determine; ``loss`` too, unless the script gives losses.
RECOUNTED = frozenset({
    "steps", "items", "units", "first_step_seconds", "compiled", "rate", "step_seconds", "steady",
    "loading", "compute", "breakdown",
})  # fmt: skip
#: Limits of a valid row: a part in ns, for which an event has 48 bits; items.
_LONGEST_PART, _MOST_ITEMS = 1 << 48, 2.0**80
#: Fewer identical steps are counted one by one.
_FEW = 8
#: The last bytes of a row: pause, thread and flags.
_TAIL = 16
_TIMES = (*PARTS, "pause")


def recounted(directory: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The ``tasks`` of ``run.json``, recounted if the file has more steps of them.

    With a stride above 1, ``tasks`` stay as they are: rows of some steps determine no figure.

    Raises:
        VoirError: The file cannot be read, or is damaged.
    """
    tasks, about = dict(part(facts, "tasks")), part(facts, "steps")
    recorded = steps_of(directory, facts)
    if about.get("stride", 1) != 1 or recorded is None:
        return tasks
    skip = about.get("skip")
    found = _Recount(recorded, None if skip is None else str(skip))
    for name, task in found.tasks().items():
        known = part(tasks, name)
        steps, before = number(task, "steps") or 0, number(known, "steps") or 0
        if "steps_at_least" in known or steps <= before:
            continue
        clock = at(known, "rate.clock")
        if clock is not None and "rate" in task:
            task["rate"]["clock"] = clock
        keys = RECOUNTED | {"loss"} if "loss" in task else RECOUNTED
        kept = {key: value for key, value in known.items() if key not in keys}
        tasks[name] = kept | {key: value for key, value in task.items() if key in keys}
        if "items" in task:
            tasks[name].pop("items_unknown", None)
    return ordered(tasks)


class _Recount:
    """A fold and its summary, fed with finished steps instead of events."""

    def __init__(self, steps: Steps, skip: str | None) -> None:
        self._steps = steps
        self._made = list[Step]()
        self._fold = Fold([], self._made.append, together=self._made.append)
        self._summary = Summary(self._fold, parse_span(skip, "--skip") if skip else None)

    def tasks(self) -> dict[str, Any]:
        """The ``tasks`` of ``run.json``; empty if the file is thinned."""
        thinned = True
        for rows in self._steps.stretches():
            self._check(rows)
            thinned = thinned and not any(number % 2 for number in rows["step"])
            self._add(rows)
            self._summary.add(self._made)
            self._made.clear()
        return {} if thinned else self._summary.section(final=True)

    def _check(self, rows: Stretch) -> None:
        known, numbers = self._fold.tasks.get(rows.task), rows["step"]
        before = (known.steps if known is not None else 0, *numbers)
        sizes = [size for size in rows["items"] if size == size]
        if not (
            all(map(lt, before, numbers))
            and all(min(rows[name]) >= 0 for name in _TIMES)
            and all(max(rows[name]) < _LONGEST_PART for name in _TIMES)
            and (not sizes or 0 <= min(sizes) <= max(sizes) <= _MOST_ITEMS)
        ):
            what = f"{self._steps.path} is damaged: step {numbers[0]:,} or one after it is invalid"
            raise VoirError("steps-damaged", what, "The figures stay those of run.json.")

    def _add(self, rows: Stretch) -> None:
        """Count rows; identical ones together."""
        task, data, at = self._fold.task(rows.task), rows.data, 0
        tails = [data[end - _TAIL : end] for end in range(ROW.size, len(data) + 1, ROW.size)]
        for _, those in groupby(tails):
            begin, at = at, at + len([*those])
            like = _step(rows, begin)
            task.recount(like)
            alike = self._alike(rows, like, begin + 1, at)
            if alike is not None:
                if like.timed:
                    for end, ns in zip(
                        rows["end"][begin + 1 : at], alike.column(AT_NS), strict=True
                    ):
                        task.run_on_device(like.thread, end, ns)
                task.close_alike(alike)
                continue
            for other in range(begin + 1, at):
                task.recount(_step(rows, other))

    def _alike(self, rows: Stretch, like: Step, begin: int, end: int) -> Alike | None:
        """Rows identical to a step, as a group; None if each must be counted."""
        few = self._fold.together is None or end - begin < _FEW
        if few or like.pause or like.compiled or rows["step"][end - 1] - like.number != end - begin:
            return None
        starts, ends, items, losses, *parts = (
            rows[name][begin:end] for name in ("start", "end", "items", "loss", *PARTS)
        )
        if like.backwards and not math.isfinite(sum(losses)):
            return None
        times = [*map(sum, zip(*parts, strict=True))]
        words = starts, ends, *parts, repeat(0), times, items, losses, repeat(UNKNOWN)
        sums, least = [sum(part) for part in parts], min(losses) if like.backwards else UNKNOWN
        # The layout of a group: the step before it, the steps, their sums.
        last = STEP_LAYOUT.pack(
            starts[0], ends[-1], *sums, 0, sum(times), sum(items), least, UNKNOWN
        )
        return Alike(
            like, b"".join((bytes(STEP_LAYOUT.size), *map(STEP_LAYOUT.pack, *words), last)), False
        )


def _step(rows: Stretch, at: int) -> Step:
    """A row as a finished step."""
    step, flags = Step(rows["start"][at]), rows["flags"][at]
    step.task, step.number, step.thread = rows.task, rows["step"][at], rows["thread"][at]
    step.end, step.items, step.loss = rows["end"][at], rows["items"][at], rows["loss"][at]
    step.parts, step.pause = [rows[name][at] for name in PARTS], rows["pause"][at]
    step.backwards = int(bool(flags & OF_BACKWARD))
    step.told = step.loss if flags & LOSS_GIVEN else UNKNOWN
    step.waited, step.timed = bool(flags & LOADED), bool(flags & DEVICE_CLOCK)
    step.compiled = int(bool(flags & COMPILED))
    return step
