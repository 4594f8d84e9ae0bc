"""Computes all figures of tasks: the ``tasks`` of ``run.json``."""

from __future__ import annotations

from ..recorder.sites import PARTS
from .alike import AT_NS, Alike
from .alike import AT_PARTS as FIRST
from .events import PART_LOADING, PART_OTHER
from .facts import HOST_CLOCK, main_name, ordered
from .rates import MAX_TASKS, Threads
from .series import Columns, StepSeries, Totals
from .spans import Extent
from .statistics import Longest, Sample, quantile, quartiles
from .tasks import WHY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .fold import Fold
    from .steps import Step
    from .tasks import Task

#: A warm-up that outlasts a fixed skip by more than this number of steps is reported.
CLOSE = 2


class Record:
    """Statistics of one task's finished steps.

    Args:
        skip: Steps or seconds to leave out of rates and shares; None: the warm-up.
        multiplier: Factor for items.
    """

    def __init__(self, skip: Extent | None, multiplier: int) -> None:
        self._skip, self._multiplier = skip, multiplier
        self._series, self._sample, self._longest = StepSeries(), Sample(), Longest()
        self._threads = Threads()
        self._before = self._skipped = 0
        self._start, self._untimed = 0, (0, 0.0)

    def add(self, step: Step) -> None:
        """Add the next finished step."""
        n, self._before = step.number - self._before, step.number
        self._start = self._start or step.start
        self._threads.add(step)
        ns = step.ns
        if not ns:  # Only its end is known.
            self._untimed = self._untimed[0] + n, self._untimed[1] + step.items
            return
        if step.compiled:
            return
        if self._skips(step.number, step.start):
            self._skipped += n
            return
        items = step.items * self._multiplier
        self._series.add(step, n, items, ns)
        self._sample.add(step.number, ns / n, items / n)
        self._longest.add(step.number, ns / n)

    def _skips(self, number: int, start: int) -> bool:
        skip = self._skip
        if skip is None:
            return False
        if skip.steps is not None:
            return number <= skip.steps
        return start < self._start + (skip.seconds or 0) * 1e9

    def add_alike(self, alike: Alike) -> None:
        """Add steps that were counted together."""
        first = alike.number - alike.n + 1
        if self._skips(first, alike.start):
            for step in alike.each():
                self.add(step)
            return
        self._before = alike.number
        self._threads.add(alike)
        numbers, ns, items = [*range(first, alike.number + 1)], alike.column(AT_NS), alike.sizes
        if self._multiplier != 1:
            items = [one * self._multiplier for one in items]
        parts = [alike.column(FIRST + part) for part in range(PART_OTHER + 1)]
        columns = Columns(numbers, [1] * alike.n, items, ns, parts)
        self._sample.extend(numbers, [*columns.bounded], items)
        self._longest.extend(numbers, ns)
        self._series.extend(columns)

    def section(self, task: Task, main: bool, clock: str, final: bool) -> dict[str, Any]:
        """The task's section of ``run.json``; unknown figures are absent.

        Loading, compute, breakdown and ``rate`` (except ``wall``) cover the same steps: those after
        a given skip, otherwise the steady ones, or all if the task never became steady.

        Args:
            task: Its totals.
            main: Whether it is the run's main task, to which the time between steps belongs.
            clock: The clock that timed the steps.
            final: Whether the search for the steady state must include the latest steps.
        """
        sized = task.items == task.items and task.steps > 0
        verdict = self._series.verdict(1.0 if final else 1.25)
        found = verdict.from_step if self._skip is None else None
        of = self._series.totals(found or 0)
        settled = self._skip is not None or found is not None
        many = self._threads.abreast
        late = self._skip is not None and (verdict.from_step or 0) > self._skipped + 1 + CLOSE
        return present(
            {
                "steps": task.steps or None,
                "items": _whole(task.items * self._multiplier) if sized else None,
                "units": "items" if sized else "steps",
                "items_unknown": WHY[task.why] if task.why and not sized else None,
                "first_step_seconds": task.first_ns / 1e9 or None,
                "compiled": _compiled(task.compiled),
                "rate": {
                    "wall": self._wall(task, sized, main),
                    "steady": _rate(of, sized, many) if settled else None,
                    **self._quartiles(found or 0, sized, many),
                    "n": of.n,
                    "skipped": self._before - of.n,
                    "clock": clock,
                },
                "step_seconds": self._times(found or 0),
                "steady": {
                    "verdict": verdict.verdict,
                    "from_step": verdict.from_step,
                    "late": late or None,
                },
                **_split(of, task.loaded),
                "pause": _pauses(task),
                "loss": losses(task),
            }
        )

    def _wall(self, task: Task, sized: bool, main: bool) -> float | None:
        n, items = self._untimed
        amount = (task.items - items) * self._multiplier if sized else task.steps - n
        held = task.held.ns if task.held is not None else 0
        # Time between the steps of another task, such as an evaluation, is not its own.
        ns = task.end - task.start if main else task.ns + held
        return amount * 1e9 / ns if ns > 0 else None

    def _quartiles(self, first: int, sized: bool, many: float) -> dict[str, float]:
        rates = [
            (items if sized else 1) * 1e9 / ns * many
            for ns, items in self._sample.since(first)
            if ns > 0 and (items == items or not sized)
        ]
        if not rates:
            return {}
        q1, median, q3 = quartiles(rates)
        return {"median": median, "q1": q1, "q3": q3}

    def _times(self, first: int) -> dict[str, float]:
        """Times of the steps from ``first`` on: quantiles."""
        times = sorted([ns / 1e9 for ns, _ in self._sample.since(first)])
        if not times:
            return {}
        q1, median, q3 = quartiles(times)
        high = {"p95": quantile(times, 0.95), "p99": quantile(times, 0.99)}
        longest = self._longest.since(first)
        high["max"] = times[-1] if longest is None else longest / 1e9
        return {"median": median, "q1": q1, "q3": q3, **high}


class Summary:
    """The figures of all tasks.

    Args:
        fold: The fold with the tasks' totals.
        skip: Steps or seconds to leave out at the start of each task; None: its warm-up.
        multiplier: Factor for items.
    """

    def __init__(self, fold: Fold, skip: Extent | None = None, multiplier: int = 1) -> None:
        self._fold, self._skip, self._multiplier = fold, skip, multiplier
        self._records: dict[str, Record] = {}

    def add(self, steps: Sequence[Step]) -> None:
        """Add finished steps."""
        records = self._records
        for step in steps:
            record = records.get(step.task)
            if record is None:
                if len(records) >= MAX_TASKS:
                    continue
                record = records[step.task] = Record(self._skip, self._multiplier)
            if isinstance(step, Alike):
                record.add_alike(step)
            else:
                record.add(step)

    def section(self, clock: str | None = None, final: bool = False) -> dict[str, Any]:
        """The present ``tasks`` of ``run.json``; ``clock`` is the host's if not given."""
        tasks = ordered(self._fold.tasks)
        if self._fold.lost:  # Neither the number nor the times of steps are known.
            return {name: {"steps_at_least": task.steps} for name, task in tasks.items()}
        main = self.main
        made = {}
        for name, task in tasks.items():
            record = self._records.get(name)
            if record is not None:
                made[name] = record.section(task, name == main, clock or HOST_CLOCK, final)
            elif loss := losses(task):
                made[name] = present({"loss": loss})
        return made

    @property
    def main(self) -> str | None:
        """The run's main task."""
        return main_name({name: task.steps for name, task in self._fold.tasks.items()})

    @property
    def stepped(self) -> tuple[float, float] | None:
        """The ends of that task's first and latest step, in seconds."""
        main = self.main
        task = self._fold.tasks.get(main) if main is not None else None
        return ((task.start + task.first_ns) / 1e9, task.end / 1e9) if task is not None else None


def losses(task: Task) -> dict[str, Any]:
    """The ``loss`` of a task in ``run.json``."""
    of = task.losses
    if not of.n:
        return {}
    least = of.least if of.least == of.least else None
    return {"first": of.first, "last": of.last, "min": least, "not_finite": of.not_finite or None}


def _whole(items: float) -> int | float:
    return int(items) if items == int(items) else items


def _rate(of: Totals, sized: bool, many: float) -> float | None:
    amount = of.items if sized else of.n
    return amount * 1e9 / of.ns * many if of.ns > 0 and amount == amount else None


def _compiled(compiled: list[int]) -> dict[str, float]:
    return {"steps": compiled[0], "seconds": compiled[1] / 1e9} if compiled[0] else {}


def _split(of: Totals, loaded: bool) -> dict[str, Any]:
    """Loading and compute, if loading was seen; and the parts, if a hook saw any."""
    made: dict[str, Any] = {}
    loading, compute = of.loading / 1e9, (of.ns - of.loading) / 1e9
    if loaded and of.ns > 0:
        share = of.loading / of.ns
        made["loading"] = {"seconds": loading, "share": share}
        made["compute"] = {"seconds": compute, "share": 1 - share}
    seconds = {name: ns / 1e9 for name, ns in zip(PARTS, of.parts, strict=True)}
    if any(of.parts[PART_LOADING + 1 : -1]):
        if not loaded:
            del seconds["loading"]
        made["breakdown"] = {
            name: value for name, value in seconds.items() if value or name == "other"
        }
    return made


def _pauses(task: Task) -> dict[str, Any]:
    of = task.pauses
    kinds = {kind: {"seconds": ns / 1e9, "count": n} for kind, (n, ns) in of.kinds.items()}
    return {"seconds": of.ns / 1e9, "count": of.count, "kinds": kinds}


def present(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without None and empty mappings, at any depth."""
    kept = {
        key: present(value) if isinstance(value, dict) else value for key, value in values.items()
    }
    return {key: value for key, value in kept.items() if value is not None and value != {}}
