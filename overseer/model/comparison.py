"""Runs compared, from what their ``run.json`` say: figure by figure, and a verdict for each task.

A task is called faster or slower only if the 95 % interval of the ratio of its rates lies wholly
beyond a threshold. Of identical programs, ten pairs of runs made in turns are called different in
0.01 % of comparisons, and a true difference of 3 % is found in 96 % (1 % between processes).
"""

from __future__ import annotations

from statistics import geometric_mean, mean, median
from typing import NamedTuple

from . import catalogue
from .comparability import doubts, in_turns, shared_tasks
from .facts import at, number, part
from .intervals import ratio_of_pairs, ratio_over_runs, ratio_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .catalogue import Metric
    from .facts import Facts

    Interval = tuple[float, float]
    Ratio = Callable[[Sequence[float], Sequence[float]], Interval | None]

#: The smallest difference that counts, as a share: of repeated runs; and of one run a side, whose
#: interval does not hold what processes of one program differ by.
THRESHOLD, SINGLE_THRESHOLD = 0.01, 0.05
FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference shown"


class Figure(NamedTuple):
    """Something that both sides have.

    Attributes:
        path: Where it is in a task, or in ``run.json``.
        metric: What it is.
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


class ComparedFigure(NamedTuple):
    """One figure of both sides.

    Attributes:
        task: The task; empty for figures of the whole run.
        figure: What it is.
        units: What the task's items are.
        before: The figure of each run of the first side.
        after: Those of the second side; in turns, each belongs to the one before at its place.
        spread: Quartiles of single steps, of each side, where a side is one run.
        ratio: Second side to first, of their :func:`middle` values; None if that is not known.
        interval: 95 %, of the ratio; None if nothing is known of it.
    """

    task: str
    figure: Figure
    units: str
    before: list[float]
    after: list[float]
    spread: tuple[Interval | None, Interval | None] = (None, None)
    ratio: float | None = None
    interval: Interval | None = None


class TaskVerdict(NamedTuple):
    """Whether the second side is faster.

    Attributes:
        task: The task.
        verdict: ``faster``, ``slower`` or ``no difference shown``.
        why: The figure that it rests on, and why it shows no difference.
        over: What the interval is over: ``pairs`` of runs made in turns, ``runs``, or the ``steps``
            of one run a side; None without an interval.
        ratio: Second side to first; None if it is not known.
        interval: 95 %, of the ratio.
    """

    task: str
    verdict: str
    why: str
    over: str | None = None
    ratio: float | None = None
    interval: Interval | None = None


class Comparison(NamedTuple):
    """Two sides compared, with the ``threshold`` that verdicts went by."""

    rows: list[ComparedFigure]
    verdicts: list[TaskVerdict]
    notes: list[str]
    threshold: float


def compare(
    before: Sequence[Facts], after: Sequence[Facts], threshold: float | None = None
) -> Comparison:
    """Compare the runs of two sides.

    Args:
        before: ``run.json`` of each run of the first side; at least one.
        after: The same of the second side.
        threshold: The smallest relative difference to report. None: ``SINGLE_THRESHOLD`` for one
            run per side, otherwise ``THRESHOLD``.
    """
    notes, tasks = [*doubts(before, after)], shared_tasks(before, after)
    single = len(before) == len(after) == 1
    if threshold is None:
        threshold = SINGLE_THRESHOLD if single else THRESHOLD
    turns = in_turns(before, after)
    over, ratio = ("pairs", ratio_of_pairs) if turns else ("runs", ratio_over_runs)
    before, after = turns or (before, after)
    rows, verdicts = [], []
    for task in tasks:
        sides = [[part(run, "tasks", task) for run in side] for side in (before, after)]
        found = [*_rows(task, TASK_FIGURES, sides[0], sides[1], ratio)]
        rows += found
        over_what = "steps" if single else over
        verdicts.append(_judged(task, found, [*sides[0], *sides[1]], over_what, threshold))
    rows += _rows("", RUN_FIGURES, before, after, ratio)
    return Comparison(rows, verdicts, notes, threshold)


def middle(values: Sequence[float]) -> float:
    """One value for all runs of a side: the geometric mean, as ratios are judged."""
    return geometric_mean(values) if min(values) > 0 else median(values)


def _rows(
    task: str, figures: Sequence[Figure], before: Sequence[Facts], after: Sequence[Facts],
    over_runs: Ratio,
) -> Iterator[ComparedFigure]:  # fmt: skip
    units = str(before[0].get("units") or "items") if task else ""
    for figure in figures:
        a, b = _values(before, figure.path), _values(after, figure.path)
        if not a or not b or not any((*a, *b)):
            continue
        ratio = interval = None
        if figure.metric.kind not in (catalogue.SHARE, catalogue.SCALAR):
            ratio = middle(b) / middle(a) if min(*a, *b) > 0 else None
            complete = len(a) == len(before) and len(b) == len(after)
            interval = over_runs(a, b) if complete else None
        if ratio and len(before) == len(after) == 1 and figure.path == "rate.steady":
            interval = _within(before[0], after[0], ratio)
        spread: tuple[Interval | None, Interval | None] = (None, None)
        if figure.path == "step_seconds.median":
            spread = _quartiles(before), _quartiles(after)
        yield ComparedFigure(task, figure, units, a, b, spread, ratio, interval)


def _values(runs: Sequence[Facts], path: str) -> list[float]:
    return [value for run in runs if (value := number(run, path)) is not None]


def _quartiles(runs: Sequence[Facts]) -> Interval | None:
    q1, q3 = number(runs[0], "step_seconds.q1"), number(runs[0], "step_seconds.q3")
    return (q1, q3) if len(runs) == 1 and q1 is not None and q3 is not None else None


def _within(before: Facts, after: Facts, ratio: float) -> Interval | None:
    """The interval of the ratio of two rates, from the times of the steps of one run a side.

    Steps of one side may have more items: they make of the ratio of times the ``ratio`` of rates.
    """
    a, b = _course(before), _course(after)
    interval = ratio_within(b, a)  # Time per step: the other way round.
    if interval is None:
        return None
    items = ratio * mean(b) / mean(a)
    return interval[0] * items, interval[1] * items


def _course(task: Facts) -> list[float]:
    means = at(task, "step_seconds.course.means")
    return [m for each in means if (m := number(each))] if isinstance(means, list) else []


def _judged(
    task: str, rows: Sequence[ComparedFigure], every: Sequence[Facts], over: str, threshold: float
) -> TaskVerdict:
    """The verdict by the steady rate, or by the overall rate if a run has no steady one."""
    steady = all(number(facts, "rate.steady") is not None for facts in every)
    path, which = ("rate.steady", "steady rate") if steady else ("rate.wall", "overall rate")
    row = next((row for row in rows if row.figure.path == path), None)
    if row is None or row.ratio is None:
        return TaskVerdict(task, NO_DIFFERENCE, "its rate is not known of both")
    if len({str(facts.get("units")) for facts in every}) > 1:
        return TaskVerdict(task, NO_DIFFERENCE, "they count different things")
    if row.interval is None:
        said = {str(at(f, "steady.verdict")) for f in every if not number(f, "rate.steady")}
        little = "too little to tell" if steady else " and ".join(sorted(said))
        return TaskVerdict(task, NO_DIFFERENCE, f"one run a side, and {little}", None, row.ratio)
    (low, high), limit, least = row.interval, 1 + threshold, f"{100 * threshold:g} %"
    if low > limit or high < 1 / limit:
        faster = (low > 1) == (row.figure.metric.better == catalogue.UP)
        return TaskVerdict(task, FASTER if faster else SLOWER, which, over, row.ratio, row.interval)
    why = "the interval holds no difference" if low <= 1 <= high else f"it may be under {least}"
    if low >= 1 / limit and high <= limit:
        why = f"less than {least}"
    return TaskVerdict(task, NO_DIFFERENCE, f"{which}: {why}", over, row.ratio, row.interval)
