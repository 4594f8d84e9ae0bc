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
from .intervals import Change, beyond, of_pairs, of_unpaired, pairs_for, vetoed
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
    #: Verdict, reason, sample, ratio and interval.
    Decided = tuple[str, str, str | None, float | None, Interval | None]

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
        ratio: Of their geometric means; None if not known, or if a value is not above 0.
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
        judge = _Judge(found, tasks, pairs, reference, threshold)
        for place, side in enumerate(sides):
            if place == reference:
                continue
            unlike = True
            if len(tasks[place]) + len(tasks[reference]) > 2:
                control = None if side.control else _control(sides, reference, side)
                against = pairs_of(sides[control], side) if control is not None else []
                decided = judge(place, control, against)
                verdicts.append(TaskVerdict(side.name, task, *decided))
                unlike = decided[0] in (FASTER, SLOWER)
            if unlike and (step := step_change(tasks[reference], tasks[place], threshold)):
                steps.append(StepChange(side.name, task, *step))
            loss = loss_change(_curves(sides[reference], task), _curves(side, task))
            if loss and _are_finite(tasks[place]) == _are_finite(tasks[reference]):
                losses.append(LossChange(side.name, task, *loss))
    rows += _rows("", RUN_FIGURES, [side.runs for side in sides], pairs, reference)
    names, notes = [side.name for side in sides], [*doubts(sides, reference)]
    controls = [at for at, side in enumerate(sides) if side.control]
    return Comparison(names, reference, controls, rows, verdicts, steps, losses, notes, threshold)


def _curves(side: ComparedSide, task: str) -> list[Mapping[int, float]]:
    return [curves[task] for curves in side.losses if task in curves]


def _are_finite(tasks: Sequence[Facts]) -> bool:
    """Whether all losses are finite: a curve leaves the others out."""
    return not any(number(task, "loss.not_finite") for task in tasks)


def _control(sides: Sequence[ComparedSide], reference: int, side: ComparedSide) -> int | None:
    """The place of the control of a bench that made both the reference and a side."""
    bench = sides[reference].bench
    found = (at for at, one in enumerate(sides) if one.control and one.bench == bench)
    return next(found, None) if bench == side.bench else None


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
    change = _change(before, after, pairs)
    over = "pairs" if pairs else "runs"
    return Against(change.ratio, change.interval, over if change.interval else None)


def _change(before: Values, after: Values, pairs: Pairs) -> Change:
    """One side against another; without an interval if some of their runs lack the value."""
    if pairs:
        before, after = [before[a] for a, _ in pairs], [after[b] for _, b in pairs]
    a, b = known(before), known(after)
    if not a or not b or min(*a, *b) <= 0:  # Nothing is relative to a pause of 0 seconds.
        return Change(None, None, 0.0, 0)
    if len(a) < len(before) or len(b) < len(after):
        return of_unpaired(a, b)._replace(interval=None)
    return (of_pairs if pairs else of_unpaired)(a, b)


def _quartiles(runs: Sequence[Facts]) -> Interval | None:
    q1, q3 = number(runs[0], "step_seconds.q1"), number(runs[0], "step_seconds.q3")
    return (q1, q3) if q1 is not None and q3 is not None else None


def _deciding(rows: Sequence[ComparedFigure], places: Sequence[int]) -> ComparedFigure | None:
    """The row of a task that decides on sides: steady rates if all runs have them."""
    found = {row.figure.path: row for row in rows}
    steady = found.get("rate.steady")
    if steady is not None and all(None not in steady.values[place] for place in places):
        return steady
    return found.get("rate.wall")


def pair_ratios(
    found: Comparison, sides: Sequence[ComparedSide], verdict: TaskVerdict
) -> list[tuple[int, float]]:
    """The round, or number, of each pair of runs that a verdict is from, and their ratio.

    Args:
        found: The comparison.
        sides: What was compared.
        verdict: One of its verdicts.
    """
    reference, place = found.reference, found.sides.index(verdict.side)
    rows = [row for row in found.rows if row.task == verdict.task]
    row = _deciding(rows, (reference, place))
    rounds, ratios = sides[place].rounds, list[tuple[int, float]]()
    for at, (a, b) in enumerate(pairs_of(sides[reference], sides[place]), 1):
        before, after = (row.values[reference][a], row.values[place][b]) if row else (None, None)
        if before and after:
            ratios.append((rounds[b] if rounds else at, after / before))
    return ratios


class _Judge:
    """Decides on the sides of a task, by the steady rate, or else by the overall rate.

    Args:
        rows: The task's figures.
        tasks: The task in each run of each side.
        pairs: For each side, its pairs with the reference.
        reference: The reference's place.
        threshold: The smallest relative difference to report.
    """

    def __init__(
        self, rows: Sequence[ComparedFigure], tasks: Sequence[Sequence[Facts]],
        pairs: Sequence[Pairs], reference: int, threshold: float,
    ) -> None:  # fmt: skip
        self._rows, self._tasks, self._pairs = rows, tasks, pairs
        self._reference, self._threshold = reference, threshold

    def __call__(self, place: int, control: int | None, against: Pairs) -> Decided:
        """Verdict, reason, sample, ratio and interval of a side.

        Args:
            place: The side's.
            control: The place of its bench's control; None for none.
            against: Its pairs with the control.
        """
        every = [*self._tasks[self._reference], *self._tasks[place]]
        row = _deciding(self._rows, (self._reference, place))
        if row is None:
            return UNDECIDED, "a side has no rate", None, None, None
        which = "steady rate" if row.figure.path == "rate.steady" else "overall rate"
        values = row.values
        if len({str(facts.get("units")) for facts in every}) > 1:
            return UNDECIDED, "their units differ", None, None, None
        found = self._against_reference(values, place)
        if found.interval is None:
            return UNDECIDED, f"not all runs have the {which}", None, found.ratio, None
        verdict, why = self._judged(found, which, bool(self._pairs[place]))
        if control is not None:
            itself = self._against_reference(values, control)
            beside = _change(values[control], values[place], against)
            if vetoed(found, itself, beside, self._threshold):
                verdict, why = UNDECIDED, f"{which}: the reference differs from itself"
        over = "pairs" if self._pairs[place] else "runs"
        return verdict, why, over, found.ratio, found.interval

    def _against_reference(self, values: Sequence[Values], place: int) -> Change:
        return _change(values[self._reference], values[place], self._pairs[place])

    def _judged(self, found: Change, which: str, paired: bool) -> tuple[str, str]:
        low, high = found.interval or (0.0, 2.0)
        threshold = self._threshold
        if beyond((low, high), threshold):
            return FASTER if low > 1 else SLOWER, which
        if low >= 1 - threshold and high <= 1 + threshold:
            return NO_DIFFERENCE, f"{which}: no difference of more than {100 * threshold:g} %"
        more = pairs_for(found, threshold)
        if more is None:
            return UNDECIDED, f"{which}: it is about {100 * threshold:g} %"
        what = "pairs" if paired else "runs a side"
        return UNDECIDED, f"{which}: about {more:,} more {what} needed"
