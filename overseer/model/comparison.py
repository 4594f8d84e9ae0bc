"""Compares sides, groups of runs, by their ``run.json``: figure by figure, with verdicts.

A difference is reported only if the 95 % interval of the ratio of rates lies wholly beyond a
threshold. With ten pairs of runs of identical programs, 0.01 % of comparisons report a difference;
a true difference of 3 % is found in 96 % of them (if processes vary by 1 %). The unit is the run:
one run a side has no interval, and no verdict.
"""

from __future__ import annotations

from statistics import geometric_mean, median
from typing import NamedTuple

from . import catalogue
from .comparability import doubts, pairs_of, shared_tasks
from .facts import number, part
from .intervals import ratio_of_pairs, ratio_over_runs
from .loss_curves import LossChange, loss_change
from .step_parts import StepChange, step_change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .catalogue import Metric
    from .comparability import ComparedSide, Pairs
    from .facts import Facts

    Interval = tuple[float, float]
    Values = list[float | None]

#: The smallest relative difference to report.
THRESHOLD = 0.01
FASTER, SLOWER, NO_DIFFERENCE, UNDECIDED = "faster", "slower", "no difference", "inconclusive"


class Figure(NamedTuple):
    """A figure to compare.

    Attributes:
        path: Its dotted path in a task, or in ``run.json``.
        metric: Its metric.
    """

    path: str
    metric: Metric


TASK_FIGURES = tuple(Figure(path, catalogue.TASK_METRICS[path]) for path in (
    "rate.steady", "rate.wall", "step_seconds.median", "loading.share", "compute.share",
    "first_step_seconds", "pause.seconds", "loss.last",
))  # fmt: skip
RUN_FIGURES = (
    Figure("host.memory.process.peak", catalogue.RUN_METRICS["host.memory.process.peak"]),
    Figure("devices.0.memory.peak", catalogue.RUN_METRICS["devices.memory.peak"]),
    Figure("seconds", catalogue.RUN_METRICS["seconds"]),
)


class Against(NamedTuple):
    """A figure of one side against that of the reference.

    Attributes:
        ratio: Of their :func:`middle` values; None if not known.
        interval: The 95 % interval of the ratio; None if not known.
        over: The sample of the interval: ``pairs`` or ``runs``; None without an interval.
    """

    ratio: float | None = None
    interval: Interval | None = None
    over: str | None = None


class ComparedFigure(NamedTuple):
    """One figure of all sides.

    Attributes:
        task: The task; empty for figures of the whole run.
        figure: The figure.
        units: The unit of the task's items.
        values: For each side, the value of each run; None for a run without it.
        spreads: For each side of one run, the quartiles of single steps; otherwise None.
        against: For each side, how it compares with the reference; None for that itself.
    """

    task: str
    figure: Figure
    units: str
    values: list[Values]
    spreads: list[Interval | None]
    against: list[Against | None]


class TaskVerdict(NamedTuple):
    """Whether a side is faster than the reference.

    Attributes:
        side: Its name.
        task: The task.
        verdict: ``faster``, ``slower``, ``no difference`` or ``inconclusive``.
        why: The deciding figure, and why it shows no difference.
        over: The sample of the interval: ``pairs`` or ``runs``; None without an interval.
        ratio: The side to the reference; None if not known.
        interval: The 95 % interval of the ratio.
    """

    side: str
    task: str
    verdict: str
    why: str
    over: str | None = None
    ratio: float | None = None
    interval: Interval | None = None


class Comparison(NamedTuple):
    """The comparison of sides.

    Attributes:
        sides: Their names.
        reference: The place of the one that the others are compared with.
        controls: The places of those that are a bench's reference once more.
        rows: The figures.
        verdicts: One for each task and each side that can have one.
        steps: How the mean steps of sides differ, where they do.
        losses: How the losses of each task and side compare.
        notes: Reasons not to trust them.
        threshold: The smallest relative difference that they report.
    """

    sides: list[str]
    reference: int
    controls: list[int]
    rows: list[ComparedFigure]
    verdicts: list[TaskVerdict]
    steps: list[StepChange]
    losses: list[LossChange]
    notes: list[str]
    threshold: float

    @property
    def plain(self) -> list[str]:
        """The names of the sides without controls."""
        return [name for at, name in enumerate(self.sides) if at not in self.controls]


def compare(
    sides: Sequence[ComparedSide], threshold: float = THRESHOLD, reference: int = 0
) -> Comparison:
    """Compare sides with one of them.

    Args:
        sides: At least two, in the order of the table's columns.
        threshold: The smallest relative difference to report.
        reference: The place of the side that the others are compared with.
    """
    pairs = [pairs_of(sides[reference], side) for side in sides]
    rows, verdicts = list[ComparedFigure](), list[TaskVerdict]()
    steps, losses = list[StepChange](), list[LossChange]()
    for task in shared_tasks(sides):
        tasks = [[part(run, "tasks", task) for run in side.runs] for side in sides]
        found = [*_rows(task, TASK_FIGURES, tasks, pairs, reference)]
        rows += found
        for place, side in enumerate(sides):
            if place == reference:
                continue
            unlike = True
            if len(tasks[place]) + len(tasks[reference]) > 2:
                both = [*tasks[reference], *tasks[place]]
                verdict = TaskVerdict(side.name, task, *_decided(found, both, place, threshold))
                verdicts.append(verdict)
                unlike = verdict.verdict in (FASTER, SLOWER)
            if unlike and (step := step_change(tasks[reference], tasks[place], threshold)):
                steps.append(StepChange(side.name, task, *step))
            if loss := loss_change(_curves(sides[reference], task), _curves(side, task)):
                losses.append(LossChange(side.name, task, *loss))
    rows += _rows("", RUN_FIGURES, [side.runs for side in sides], pairs, reference)
    names, notes = [side.name for side in sides], [*doubts(sides, reference)]
    controls = [at for at, side in enumerate(sides) if side.control]
    verdicts = _guarded(verdicts, sides, reference)
    return Comparison(names, reference, controls, rows, verdicts, steps, losses, notes, threshold)


def _curves(side: ComparedSide, task: str) -> list[Mapping[int, float]]:
    return [curves[task] for curves in side.losses if task in curves]


def _guarded(
    verdicts: list[TaskVerdict], sides: Sequence[ComparedSide], reference: int
) -> list[TaskVerdict]:
    """The verdicts, none of a bench whose control differs from the reference."""
    bench = sides[reference].bench
    of_bench = {side.name: side.control for side in sides if side.bench == bench}
    differs = {
        each.task for each in verdicts
        if of_bench.get(each.side) and each.verdict in (FASTER, SLOWER)
    }  # fmt: skip
    why = "the reference differs from itself, so this machine cannot tell"
    return [
        each._replace(verdict=UNDECIDED, why=why)
        if each.task in differs and of_bench.get(each.side) is False else each
        for each in verdicts
    ]  # fmt: skip


def middle(values: Sequence[float]) -> float:
    """One value for all runs of a side: their geometric mean, which suits ratios."""
    return geometric_mean(values) if min(values) > 0 else median(values)


def known(values: Values) -> list[float]:
    """The values of the runs that have one."""
    return [value for value in values if value is not None]


def _rows(
    task: str, figures: Sequence[Figure], sides: Sequence[Sequence[Facts]], pairs: Sequence[Pairs],
    reference: int,
) -> Iterator[ComparedFigure]:  # fmt: skip
    units = str(sides[reference][0].get("units") or "items") if task else ""
    for figure in figures:
        values = [[number(run, figure.path) for run in side] for side in sides]
        if not all(map(known, values)) or not any(any(each) for each in values):
            continue
        ratios = figure.metric.kind not in (catalogue.SHARE, catalogue.SCALAR)
        against = [
            None if place == reference
            else _against(values[reference], values[place], pairs[place]) if ratios
            else Against()
            for place in range(len(sides))
        ]  # fmt: skip
        steps = figure.path == "step_seconds.median"
        spreads = [_quartiles(side) if steps and len(side) == 1 else None for side in sides]
        yield ComparedFigure(task, figure, units, values, spreads, against)


def _against(before: Values, after: Values, pairs: Pairs) -> Against:
    over, interval_of = ("pairs", ratio_of_pairs) if pairs else ("runs", ratio_over_runs)
    if pairs:
        before, after = [before[a] for a, _ in pairs], [after[b] for _, b in pairs]
    a, b = known(before), known(after)
    if not a or not b or min(*a, *b) <= 0:
        return Against()
    complete = len(a) == len(before) and len(b) == len(after)
    interval = interval_of(a, b) if complete else None
    return Against(middle(b) / middle(a), interval, over if interval else None)


def _quartiles(runs: Sequence[Facts]) -> Interval | None:
    q1, q3 = number(runs[0], "step_seconds.q1"), number(runs[0], "step_seconds.q3")
    return (q1, q3) if q1 is not None and q3 is not None else None


def _decided(
    rows: Sequence[ComparedFigure], every: Sequence[Facts], place: int, threshold: float
) -> tuple[str, str, str | None, float | None, Interval | None]:
    """A side's verdict by the steady rate; by the overall rate if a run has no steady one.

    Args:
        rows: The task's figures.
        every: The task of each run of the side and of the reference.
        place: The side's place.
        threshold: The smallest relative difference to report.
    """
    steady = all(number(facts, "rate.steady") is not None for facts in every)
    path, which = ("rate.steady", "steady rate") if steady else ("rate.wall", "overall rate")
    found = next((row.against[place] for row in rows if row.figure.path == path), None)
    if found is None or found.ratio is None:
        return UNDECIDED, "a side has no rate", None, None, None
    if len({str(facts.get("units")) for facts in every}) > 1:
        return UNDECIDED, "their units differ", None, None, None
    if found.interval is None:
        return UNDECIDED, f"not all runs have the {which}", None, found.ratio, None
    (low, high), least = found.interval, f"{100 * threshold:g} %"
    verdict, why = UNDECIDED, f"{which}: more or less than {least}"
    if low > 1 + threshold or high < 1 - threshold:
        verdict, why = FASTER if low > 1 else SLOWER, which
    elif low >= 1 - threshold and high <= 1 + threshold:
        verdict, why = NO_DIFFERENCE, f"{which}: no difference of more than {least}"
    return verdict, why, found.over, found.ratio, found.interval
