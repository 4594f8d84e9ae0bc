"""Compares runs by their ``run.json``: figure by figure, with a verdict for each task.

A difference is reported only if the 95 % interval of the ratio of rates excludes zero difference
and lies beyond a threshold. With ten alternating pairs of runs of identical programs, 0.01 % of
comparisons report a difference; a true difference of 3 % is found in 96 % of them (if processes
vary by 1 %).
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

#: The smallest relative difference to report, for repeated runs; and for one run per side, whose
#: interval does not include the variation between processes.
THRESHOLD, SINGLE_THRESHOLD = 0.01, 0.05
FASTER, SLOWER, NO_DIFFERENCE = "faster", "slower", "no difference shown"


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


class ComparedFigure(NamedTuple):
    """One figure of both sides.

    Attributes:
        task: The task; empty for figures of the whole run.
        figure: The figure.
        units: The unit of the task's items.
        before: The value of each run of the first side.
        after: The values of the second side; of alternating runs, in pairs with ``before``.
        spread: Quartiles of single steps by side, for one run per side.
        ratio: Second side to first, of their :func:`middle` values; None if unknown.
        interval: The 95 % interval of the ratio; None if unknown.
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
        why: The deciding figure, and why it shows no difference.
        over: The sample of the interval: ``pairs`` of alternating runs, ``runs``, or the ``steps``
            of one run per side; None without an interval.
        ratio: Second side to first; None if unknown.
        interval: The 95 % interval of the ratio.
    """

    task: str
    verdict: str
    why: str
    over: str | None = None
    ratio: float | None = None
    interval: Interval | None = None


class Comparison(NamedTuple):
    """The comparison of two sides, with the ``threshold`` of its verdicts."""

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
        after: ``run.json`` of each run of the second side.
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
    """One value for all runs of a side: their geometric mean, which suits ratios."""
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
    """The interval of a ratio of rates, from the step times of one run per side.

    The ratio of times is scaled to the ``ratio`` of rates, as steps may differ in items.
    """
    a, b = _course(before), _course(after)
    interval = ratio_within(b, a)  # Swapped: times, not rates.
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
    """The verdict by the steady rate; by the overall rate if a run has no steady one."""
    steady = all(number(facts, "rate.steady") is not None for facts in every)
    path, which = ("rate.steady", "steady rate") if steady else ("rate.wall", "overall rate")
    row = next((row for row in rows if row.figure.path == path), None)
    if row is None or row.ratio is None:
        return TaskVerdict(task, NO_DIFFERENCE, "a side has no rate")
    if len({str(facts.get("units")) for facts in every}) > 1:
        return TaskVerdict(task, NO_DIFFERENCE, "their units differ")
    if row.interval is None:
        said = {str(at(f, "steady.verdict")) for f in every if not number(f, "rate.steady")}
        little = "too few steps" if steady else " and ".join(sorted(said))
        why = f"one run per side, and {little}"
        return TaskVerdict(task, NO_DIFFERENCE, why, None, row.ratio)
    (low, high), limit, least = row.interval, 1 + threshold, f"{100 * threshold:g} %"
    if low > limit or high < 1 / limit:
        faster = (low > 1) == (row.figure.metric.better == catalogue.UP)
        return TaskVerdict(task, FASTER if faster else SLOWER, which, over, row.ratio, row.interval)
    why = "the interval includes zero" if low <= 1 <= high else f"it may be under {least}"
    if low >= 1 / limit and high <= limit:
        why = f"less than {least}"
    return TaskVerdict(task, NO_DIFFERENCE, f"{which}: {why}", over, row.ratio, row.interval)
