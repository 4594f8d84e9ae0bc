"""What a run was asked to tell and did not: why, and what helps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from overseer.errors import Problem

from .loader import REMEDY

if TYPE_CHECKING:
    from .meter import Measuring, Meter
    from .seldom import Seldom

#: The task of steps that name none.
TRAIN = "train"
#: What to do to have a figure known, by the key that it is logged under.
NEEDED = {
    "train_rate": "Give step with batch at the end of each step; voir.iterate: report_batch=True.",
    "loading_rate": (
        "Give the loader, or the pair compute_start and compute_end;"
        " voir.iterate: report_batch=True."
    ),
    "compute_rate": "Give the pair compute_start and compute_end around the work on a batch.",
}
#: What to do where a loader was given and its batches were no steps.
STEPLESS = "Give step with batch at the end of each turn; --no-auto: each batch is a step."
#: What to do where a rate of a voirfile skips all.
FEWER = "Skip fewer: rate(skip=N) counts windows, rate(skip='5s') seconds."
#: What to do where steps are rarer than pairs.
EVENTS = "If the events are the steps, add --metric step, or rate(method='step') in a voirfile."
#: What to do where events come before the pairs whose steps they should end.
BEHIND = "Give step at the end of each turn (> #endloop_x as step), or add --metric wrap."
#: What to do to have items known.
ALONG = (
    'Give the batch along: ov.probe("//train(inp as batch) > #endloop_inp as step").give();'
    " voir.iterate: report_batch=True."
)


class Untold:
    """Names the figures that were asked for and never came, when all is summed up.

    Args:
        asked: What was to be measured.
        meter: What has measured; None where nothing was shown.
    """

    def __init__(self, asked: Measuring, meter: Meter | None) -> None:
        self._asked = asked
        self._meter = meter
        self._ov = asked.ov

    def problems(self) -> Iterator[Problem]:
        """Each once, in the order in which they are to be told."""
        asked, told = self._asked, self._meter.told if self._meter is not None else ()
        skip, unwatched = self._skips_all(), False
        if skip is not None:
            yield skip
        if skip is None or (self._meter is not None and self._meter.windows):
            for key in asked.logged:
                if key not in told:
                    problem = self._untold(key)
                    unwatched |= problem.slug == "unwatched-loader"
                    yield problem
            if asked.windows and not asked.logged and not self._steps() and not asked.loaders.told:
                yield self._untold("train_rate", "rate")
        yield from self._skipped_windows()
        loaders = asked.loaders
        if self._passed_over() and not (asked.logged or asked.windows):
            yield self._without_steps("loader")
        silent = loaders.unheard or (loaders.unseen is not None and not self._steps())
        if silent and not loaders.told and not unwatched:
            yield self._unwatched("loader")
        if (bare := self._bare()) is not None:
            yield bare
        if self._meter is not None:
            yield from self._fewer(self._meter.seldom)

    def _skips_all(self) -> Problem | None:
        """That the skip leaves out every step of training, or of all tasks; None if it does not."""
        skipped = self._asked.skipped
        if skipped is None or skipped.nothing:
            return None
        tasks = {name: t for name, t in self._ov.summary.get("tasks", {}).items() if t.get("steps")}
        gone = [name for name, task in tasks.items() if _nothing_left(task)]
        if not _matter(gone, tasks):
            return None
        who = f"--{self._asked.logged[0].replace('_', '-')}" if self._asked.logged else "rate"
        of = f" of {', '.join(gone)}" if len(gone) < len(tasks) else ""
        steps = sum(tasks[name]["steps"] for name in gone)
        what = f"--skip {self._asked.skip} leaves out all steps{of}: there were {steps}"
        return Problem("no-rate", who, what, remedy="Skip fewer; the warm-up is found anyway.")

    def _skipped_windows(self) -> Iterator[Problem]:
        """That a rate of a voirfile leaves out every step of training, or of all tasks."""
        tasks = {name: t for name, t in self._ov.summary.get("tasks", {}).items() if t.get("steps")}
        of_windows = {} if self._meter is None else self._meter.read
        for windows in dict.fromkeys(self._asked.windows):
            read, skip = of_windows.get(windows, set()), windows.skip
            gone = [name for name in tasks if name not in read]
            if skip.nothing or not _matter(gone, tasks):
                continue
            steps = sum(tasks[name]["steps"] for name in gone)
            if skip.steps is not None and skip.steps < max(tasks[name]["steps"] for name in gone):
                continue  # Ctrl-C has cut the last window short.
            of = f" of {', '.join(gone)}" if len(gone) < len(tasks) else ""
            covered = f"{skip.seconds or 0:g} s"
            if skip.steps is not None:
                covered = f"{min(skip.steps, 10**15):,} steps"
            what = f"its skip covers {covered}, and leaves out all steps{of}: there were {steps}"
            yield Problem("no-rate", "rate", what, remedy=FEWER)

    def _bare(self) -> Problem | None:
        """That rates were asked for, and no step came with a batch; None where that is not so."""
        told = any(problem.slug == "batch-size" for problem in self._ov.problems)
        if self._meter is None or told or not (self._asked.logged or self._asked.windows):
            return None
        tasks, bare = self._ov.summary.get("tasks", {}), self._meter.model.counts.bare
        found = [name for name in bare if "items" not in tasks.get(name, {"items": 0})]
        if not _matter(found, tasks):
            return None
        near = [key for key in dict.fromkeys(chain(*(bare[name] for name in found))) if _near(key)]
        but = f", but with {', '.join(near)}" if near else ""
        what = (
            "how many items a batch holds is not known:"
            f" no step of {', '.join(found)} came with batch or batch_size{but}"
        )
        return Problem("batch-size", "step model", what, remedy=ALONG)

    def _fewer(self, seldom: Seldom) -> Iterator[Problem]:
        """That events tell of fewer steps than there are pairs, each of which is one."""
        for task, pairs, steps in seldom.tasks():
            first = "the first " if seldom.left else ""
            what = f"each pair is a step of {task}, but events tell of fewer steps:"
            what += f" {steps:,} beside {first}{pairs:,} pairs"
            yield Problem("fewer-steps", "step model", what, remedy=EVENTS)

    def _steps(self) -> int:
        tasks = self._ov.summary.get("tasks", {}).values()
        return sum(task.get("steps", 0) for task in tasks)

    def _passed_over(self) -> bool:
        """Whether there are no steps, for a given loader's batches were left to PyTorch's hooks."""
        loaders = self._asked.loaders
        return loaders.passed_over and not loaders.feeds.at_work and not self._steps()

    def _without_steps(self, who: str) -> Problem:
        what = "batches of the loader that was given are no steps: the script seems to learn"
        what += " by PyTorch, but nothing was seen of that"
        return Problem("no-rate", who, what, remedy=STEPLESS)

    def _paired(self) -> bool:
        """Whether the work on the only step was seen, but not what came before it."""
        tasks = self._ov.summary.get("tasks", {}).values()
        seen = any("first_step_seconds" in task for task in tasks)
        return self._ov.shows("compute_start") or (seen and not self._ov.shows("step"))

    def _unwatched(self, who: str) -> Problem:
        kind = self._asked.loaders.unseen
        what = f"the loader that was given is a {kind}, which cannot be watched from within"
        return Problem("unwatched-loader", who, what, remedy=REMEDY)

    def _left_out(self, who: str) -> Problem:
        """That all there was is no step, by what was said of those."""
        asked = getattr(self._ov.options, "metric", None)
        taken, left, other = ("step events", "pairs", "wrap")
        if self._asked.method == "wrap":
            taken, left, other = ("pairs", "step events", "step")
        way = f"--metric {asked}" if asked else f"rate(method={self._asked.method!r})"
        what = f"{way} takes only {taken} for steps, and leaves out the {left} that were given"
        instead = f"--metric {other}" if asked else f"method={other!r}"
        return Problem("no-rate", who, what, remedy=f"Leave that out, or write {instead}.")

    def _untold(self, key: str, asked: str | None = None) -> Problem:
        """Why a figure that was asked for, by its flag or otherwise, never came."""
        flag, steps = asked or f"--{key.replace('_', '-')}", self._steps()
        if steps == 1 and (key == "train_rate" or self._paired()):
            what = "there was one step, and its beginning was not seen"
            return Problem("no-rate", flag, what, remedy="Run two steps, or give the loader.")
        if key != "train_rate" and self._asked.loaders.unseen is not None:
            return self._unwatched(flag)
        if self._meter is not None and self._meter.left:
            return self._left_out(flag)
        if self._passed_over():
            return self._without_steps(flag)
        what = "the run showed nothing that it could be told from"
        return Problem("no-rate", flag, what, remedy=NEEDED[key])


def _near(key: str) -> bool:
    """Whether a key may be meant for the batch, or for its size."""
    from difflib import get_close_matches

    return bool(get_close_matches(key, ("batch", "batch_size"), 1, 0.75))


def _matter(found: list[str], tasks: dict[str, Any]) -> bool:
    """Whether what is so of these tasks is of the one the run is about, or of all there are."""
    return TRAIN in found or (bool(found) and len(found) >= len(tasks))


def _nothing_left(task: dict[str, Any]) -> bool:
    """Whether the skip leaves out all steps of a task; those that compiled are out anyway."""
    compiled = task.get("compiled", {}).get("steps", 0)
    return bool(task["rate"]["skipped"] - compiled >= task["steps"])
