"""Runs compared, from what their ``run.json`` say: figure by figure, and a verdict for each task.

A task is called faster or slower only when its rate differs by more than a threshold *and* the
interval of the difference leaves out none at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean, mean, median
from typing import Any, NamedTuple

from .doubts import doubts, in_both
from .intervals import Interval, ratio_over_runs, ratio_within
from .parts import at, number, part

Facts = Mapping[str, Any]
#: A difference below this share is none, whatever its interval.
THRESHOLD = 0.05
FASTER, SLOWER, NONE = "faster", "slower", "no difference shown"


class Figure(NamedTuple):
    """Something that both sides have.

    Attributes:
        name: What it is called.
        kind: ``rate``, ``seconds``, ``share``, ``bytes`` or ``number``.
        path: Where it is in a task, or in ``run.json``.
    """

    name: str
    kind: str
    path: str


TASK = (
    Figure("steady", "rate", "rate.steady"),
    Figure("overall", "rate", "rate.wall"),
    Figure("step", "seconds", "step_seconds.median"),
    Figure("loading", "share", "loading.share"),
    Figure("compute", "share", "compute.share"),
    Figure("first step", "seconds", "first_step_seconds"),
    Figure("pauses", "seconds", "pause.seconds"),
    Figure("last loss", "number", "loss.last"),
)
RUN = (
    Figure("memory", "bytes", "host.memory.process.peak"),
    Figure("gpu memory", "bytes", "devices.0.memory.peak"),
    Figure("run", "seconds", "seconds"),
)


class Row(NamedTuple):
    """One figure of both sides.

    Attributes:
        task: The task; empty for figures of the whole run.
        units: What the task's items are.
        before: The figure of each run of the first side.
        after: Those of the second side.
        spread: Quartiles of single steps, of each side, where a side is one run.
        ratio: Second side to first, of their :func:`middle` values; None when that is not known.
        interval: 95 %, of the ratio; None when nothing is known of it.
    """

    task: str
    figure: Figure
    units: str
    before: list[float]
    after: list[float]
    spread: tuple[Interval | None, Interval | None] = (None, None)
    ratio: float | None = None
    interval: Interval | None = None


class Verdict(NamedTuple):
    """What there is to say of a task.

    Attributes:
        task: The task.
        verdict: ``faster``, ``slower`` (the second side than the first) or ``no difference shown``.
        why: What it rests on.
        over: ``runs`` when the interval is over repeated runs, ``steps`` when it is within one run
            a side; None without an interval.
    """

    task: str
    verdict: str
    why: str
    over: str | None
    ratio: float | None
    interval: Interval | None


class Comparison(NamedTuple):
    """Two sides compared."""

    rows: list[Row]
    verdicts: list[Verdict]
    notes: list[str]


def compare(
    before: Sequence[Facts], after: Sequence[Facts], threshold: float = THRESHOLD
) -> Comparison:
    """Compare the runs of two sides.

    Args:
        before: ``run.json`` of each run of the first side; at least one.
        after: The same of the second side.
        threshold: The smallest difference that counts, as a share.
    """
    tasks = in_both(before, after)
    rows = [row for task in tasks for row in _task_rows(task, before, after)]
    rows += [row for figure in RUN if (row := _row("", figure, "", before, after)) is not None]
    verdicts = [_judge(task, rows, before, after, threshold) for task in tasks]
    return Comparison(rows, verdicts, [*doubts(before, after)])


def _task_rows(task: str, before: Sequence[Facts], after: Sequence[Facts]) -> Iterator[Row]:
    sides = (
        [part(part(run, "tasks"), task) for run in before],
        [part(part(run, "tasks"), task) for run in after],
    )
    units = str(sides[0][0].get("units") or "items")
    for figure in TASK:
        row = _row(task, figure, units, *sides)
        if row is not None:
            yield row


def _row(
    task: str, figure: Figure, units: str, before: Sequence[Facts], after: Sequence[Facts]
) -> Row | None:
    values = [_values(side, figure.path) for side in (before, after)]
    if not all(values) or not any(map(any, values)):
        return None
    row = Row(task, figure, units, values[0], values[1])
    if figure.kind in ("share", "number"):
        return row
    complete = len(values[0]) == len(before) and len(values[1]) == len(after)
    ratio = middle(values[1]) / middle(values[0]) if min(*values[0], *values[1]) > 0 else None
    interval = ratio_over_runs(*values) if complete else None
    if figure.path == "step_seconds.median":
        row = row._replace(spread=(_quartiles(before), _quartiles(after)))
    elif figure.path == "rate.steady" and interval is None and complete and ratio is not None:
        single = len(before) == len(after) == 1
        interval = _within(before[0], after[0], ratio) if single else None
    return row._replace(ratio=ratio, interval=interval)


def middle(values: Sequence[float]) -> float:
    """One value for all runs of a side: the geometric mean, for it is ratios that are judged."""
    return geometric_mean(values) if min(values) > 0 else median(values)


def _values(runs: Sequence[Facts], path: str) -> list[float]:
    found = (number(at(run, path)) for run in runs)
    return [value for value in found if value is not None]


def _quartiles(runs: Sequence[Facts]) -> Interval | None:
    q1, q3 = (number(at(runs[0], f"step_seconds.{key}")) for key in ("q1", "q3"))
    return (q1, q3) if len(runs) == 1 and q1 is not None and q3 is not None else None


def _within(before: Facts, after: Facts, ratio: float) -> Interval | None:
    """The interval of the ratio of two rates, from the course of the steps of one run a side.

    Steps of one side may have more items than those of the other: that makes of the ratio of their
    times the ``ratio`` of the rates.
    """
    courses = [_course(side) for side in (after, before)]  # Time per step: the other way round.
    interval = ratio_within(*courses)
    if interval is None:
        return None
    items = ratio * mean(courses[0]) / mean(courses[1])
    return interval[0] * items, interval[1] * items


def _course(task: Facts) -> list[float]:
    means = at(task, "step_seconds.course.means")
    found = [number(mean) for mean in means] if isinstance(means, list) else []
    return [mean for mean in found if mean is not None]


# What it comes to


def _judge(
    task: str,
    rows: Sequence[Row],
    before: Sequence[Facts],
    after: Sequence[Facts],
    threshold: float,
) -> Verdict:
    repeated = len(before) > 1 or len(after) > 1
    every = [part(part(run, "tasks"), task) for run in (*before, *after)]
    steady = all(number(at(facts, "rate.steady")) is not None for facts in every)
    path = "rate.steady" if steady else "rate.wall"
    row = next((r for r in rows if r.task == task and r.figure.path == path), None)
    if row is None or row.ratio is None:
        return Verdict(task, NONE, "its rate is not known of both", None, None, None)
    which = "steady rate" if steady else "overall rate"
    over = None if row.interval is None else "runs" if repeated else "steps"
    verdict = Verdict(task, NONE, "", over, row.ratio, row.interval)
    if len({str(facts.get("units")) for facts in every}) > 1:
        return verdict._replace(why="they count different things", ratio=None, interval=None)
    if row.interval is None:
        why = f"{which}: one run a side, and too little to tell" if steady else _unsteady(every)
        return verdict._replace(why=why)
    low, high = row.interval
    if low <= 1 <= high:
        return verdict._replace(why=f"{which}: the interval holds no difference")
    if not row.ratio > 1 + threshold and not row.ratio < 1 / (1 + threshold):
        return verdict._replace(why=f"{which}: less than {100 * threshold:g} %")
    return verdict._replace(verdict=FASTER if row.ratio > 1 else SLOWER, why=which)


def _unsteady(every: Sequence[Facts]) -> str:
    found = {str(at(facts, "steady.verdict")) for facts in every if not at(facts, "rate.steady")}
    return f"one run a side, and {' and '.join(sorted(found))}"


__all__ = ["Comparison", "Figure", "Row", "Verdict", "compare", "middle"]
