"""What a report draws of a run: curves over its steps and over time, with few enough points."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from heapq import nlargest
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

from ..errors import VoirError
from ..model.catalogue import CONTEXT_KEYS, FIGURES, METRIC_GROUPS, TOTAL
from ..model.decimate import extremes, stretches
from ..model.facts import main_task_name, number, part
from ..recorder.sites import PARTS
from .reading import Run
from .steps import Stretch, steps_of

#: Points of a curve, places in which means are taken, and bars of a histogram.
POINTS, MEANS, HISTOGRAM_BARS = 800, 200, 40
#: Long steps that are listed, pauses that are drawn, and values of the script that are curves.
OUTLIERS, PAUSES, GIVEN = 12, 300, 12
#: Points of all curves over time together, and the least of one.
TIME_POINTS, LEAST_POINTS = 6000, 60
#: Values of one curve that are read.
VALUES_READ = 200_000
_NS = 1e9


class Curve(NamedTuple):
    """A curve: places and values, which are finite."""

    x: list[float]
    y: list[float]


class Pause(NamedTuple):
    """Time between steps.

    Attributes:
        step: The step after it.
        start: In seconds from the run's start.
        end: The same.
        what: ``evaluation``, or ``pause``.
    """

    step: int
    start: float
    end: float
    what: str


class StepCurves(NamedTuple):
    """Curves over the steps of a run's main task.

    Attributes:
        task: The task.
        units: The unit of its items.
        times: Seconds from the run's start by step, for some steps.
        loss: The loss by step.
        seconds: The time of a step, without pauses: the least and greatest of each place.
        rate: Items per second by step: means of places.
        own: The time of a step without waits for other ranks: means of places.
        parts: For each part of a step, its mean time by step.
        pauses: The longest times between steps.
        bars: Edges of a histogram of times of steps, ascending, and the number of steps between.
        outliers: The longest steps, with their times.
        n: The number of steps.
    """

    task: str
    units: str
    times: Curve
    loss: Curve
    seconds: Curve
    rate: Curve
    own: Curve
    parts: dict[str, Curve]
    pauses: list[Pause]
    bars: tuple[list[float], list[int]]
    outliers: list[tuple[int, float]]
    n: int


def step_curves(
    run: Run, task: str | None, report: Callable[[VoirError], object], points: int = POINTS,
    whole: bool = True,
) -> StepCurves | None:  # fmt: skip
    """The curves of a task's steps; None without any.

    Args:
        run: A run of one process.
        task: The task; None: the main one.
        report: Receives the error of a file that is damaged.
        points: Points of a curve, at most.
        whole: With pauses, bars and outliers; otherwise these are empty.
    """
    task = task or main_task_name(run.facts)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("step", "start", "end", "items", "loss", "pause", *PARTS)
    }
    others = list[tuple[int, int]]()
    try:
        steps = steps_of(run.path, run.facts)
        for rows in steps.stretches() if steps is not None else ():
            if rows.task == task:
                for name, values in columns.items():
                    values += rows[name]
            else:
                others += _span(rows)
    except VoirError as error:
        report(error)
    if task is None or not columns["step"]:
        return None
    return _curves(task, run.facts, columns, others, points, whole)


def _span(rows: Stretch) -> list[tuple[int, int]]:
    return [*zip(rows["start"], rows["end"], strict=True)]


def _curves(
    task: str,
    facts: Mapping[str, Any],
    columns: Mapping[str, list[Any]],
    others: list[tuple[int, int]],
    points: int,
    whole: bool,
) -> StepCurves:
    steps: list[float] = columns["step"]
    begun = number(part(facts, "steps"), "start") or columns["start"][0]
    took = _sums([columns[name] for name in PARTS])
    items = columns["items"] if part(facts, "tasks", task).get("units") == "items" else []
    if not items or not all(map(math.isfinite, items)):
        items = [1.0] * len(steps)
    places = [*stretches(len(steps), max(points // 4, MEANS // 4))]
    middles = [steps[(a + b) // 2] for a, b in places]
    parts = {name: [sum(columns[name][a:b]) / (b - a) / _NS for a, b in places] for name in PARTS}
    rates = [sum(items[a:b]) / (sum(took[a:b]) or math.inf) for a, b in places]
    waits = columns["communication"]
    own = [(sum(took[a:b]) - sum(waits[a:b]) / _NS) / (b - a) for a, b in places]
    firsts = [*dict.fromkeys((*(a for a, _ in places), len(steps) - 1))]
    longest = nlargest(OUTLIERS, range(len(steps)), key=took.__getitem__) if whole else []
    return StepCurves(
        task,
        str(part(facts, "tasks", task).get("units") or "items"),
        Curve([steps[at] for at in firsts], [(columns["end"][at] - begun) / _NS for at in firsts]),
        _curve(steps, columns["loss"], points),
        _curve(steps, took, points),
        Curve(middles, rates),
        Curve(middles, own),
        {name: Curve(middles, means) for name, means in parts.items() if any(means)},
        _pauses(columns, sorted(others), begun) if whole else [],
        _histogram(took) if whole else ([], []),
        [(int(steps[at]), took[at]) for at in longest],
        len(steps),
    )


def _sums(columns: list[list[int]]) -> list[float]:
    """The sums of each row of columns, from ns to seconds."""
    first, *rest = columns
    for column in rest:
        first = list(map(add, first, column))
    return [ns / _NS for ns in first]


def _curve(x: list[float], y: list[float], most: int) -> Curve:
    kept = extremes(y, most)
    return Curve([x[at] for at in kept], [y[at] for at in kept])


def _pauses(
    columns: Mapping[str, list[Any]], others: list[tuple[int, int]], begun: float
) -> list[Pause]:
    """The longest pauses; those in which another task made steps are evaluations."""
    starts, ends, steps = columns["start"], columns["end"], columns["step"]
    least = (sum(ends) - sum(starts)) / len(steps) / 2
    gaps = [
        (start - end, end, start, step)
        for end, start, step in zip(ends, starts[1:], steps[1:], strict=False)
        if start - end > least
    ]
    gaps += [
        (pause, start, start + pause, step)
        for pause, start, step in zip(columns["pause"], starts, steps, strict=True)
        if pause > least
    ]
    longest = nlargest(PAUSES, gaps)
    firsts = [start for start, _ in others]
    found = []
    for _, start, end, step in sorted(longest, key=lambda gap: gap[1]):
        at = bisect_right(firsts, end) - 1
        evaluated = at >= 0 and others[at][1] > start
        what = "evaluation" if evaluated else "pause"
        found.append(Pause(step, (start - begun) / _NS, (end - begun) / _NS, what))
    return found


def _histogram(took: list[float]) -> tuple[list[float], list[int]]:
    """Bars of equal width on a logarithmic scale, if times differ much; else on a linear one."""
    ordered = sorted(took)
    low, high = ordered[0], ordered[-1]
    if not low < high:
        return [low, low], [len(took)]
    ratio = high / low if low > 0 else math.inf
    if 5 < ratio < math.inf:
        edges = [low * ratio ** (at / HISTOGRAM_BARS) for at in range(HISTOGRAM_BARS + 1)]
    else:
        edges = [low + (high - low) * at / HISTOGRAM_BARS for at in range(HISTOGRAM_BARS + 1)]
    below = [0, *(bisect_right(ordered, edge) for edge in edges[1:-1]), len(ordered)]
    return edges, [b - a for a, b in pairwise(below)]


class TimeCurve(NamedTuple):
    """A curve over time.

    Attributes:
        key: The key of its values: ``cpudata.load``, ``accuracy``.
        name: For people: ``cpu load``.
        unit: ``%``, ``B``, ``B/s``, ...; ``1`` for plain numbers.
        given: The script or a voirfile gives it; otherwise a monitor.
        curve: Its values by seconds from the run's start.
    """

    key: str
    name: str
    unit: str
    given: bool
    curve: Curve


def time_curves(
    run: Run, report: Callable[[VoirError], object], points: int = TIME_POINTS
) -> list[TimeCurve]:
    """What monitors sampled, and the numbers that the script gives, over time.

    Args:
        run: A run of one process.
        report: Receives the error of a file that cannot be read.
        points: Points of all curves together, if these are not very many.
    """
    found: dict[str, tuple[str, str, bool, list[float], list[float]]] = {}

    def add(key: str, name: str, unit: str, given: bool, t: float, value: object) -> None:
        shown = found.get(key) or found.setdefault(key, (name, unit, given, [], []))
        if isinstance(value, (int, float)) and math.isfinite(value) and len(shown[3]) < VALUES_READ:
            shown[3].append(t)
            shown[4].append(float(value))

    try:
        for event in run.metrics:
            t = run.seconds_of(event)
            if t is None or "$event" in event or "$wrap" in event:
                continue
            for key, value in event.items():
                group = METRIC_GROUPS.get(key)
                if group is not None and isinstance(value, dict):
                    for path, name, unit, number_of in _monitored(key, value):
                        add(path, name, unit, False, t, number_of)
                elif key not in CONTEXT_KEYS | FIGURES and type(value) in (int, float):
                    add(key, key, "1", True, t, value)
    except VoirError as error:
        report(error)
    named = {key: one for key, one in found.items() if len(one[3]) > 1}
    given = [key for key, one in named.items() if one[2] and any(one[4])][:GIVEN]
    kept = [*given, *(key for key, one in named.items() if not one[2])]
    each = min(POINTS, max(points // max(len(kept), 1), LEAST_POINTS))
    made = [
        TimeCurve(key, name, unit, is_given, _over_time(unit, x, y, each))
        for key, (name, unit, is_given, x, y) in ((key, named[key]) for key in kept)
    ]
    return [one for one in made if one.curve.x]


def _over_time(unit: str, x: list[float], y: list[float], points: int) -> Curve:
    """The curve; of totals, their growth per second."""
    if unit == "B/s":
        rates = [
            max(b - a, 0) / (u - t) if u > t else 0.0
            for t, u, a, b in zip(x, x[1:], y, y[1:], strict=False)
        ]
        x, y = x[1:], rates
    return _curve(x, y, points)


def _monitored(key: str, value: Mapping[str, Any]) -> list[tuple[str, str, str, object]]:
    """Key, name, unit and value of each plotted metric of a monitor's event."""
    group, found = METRIC_GROUPS[key], list[tuple[str, str, str, object]]()
    devices = {"": value, **{f" {n}": v for n, v in value.items() if isinstance(v, dict)}}
    for device, values in devices.items():
        for name, metric in group.metrics.items():
            if metric.curve and name in values:
                one = values[name][0] if isinstance(values[name], list) else values[name]
                unit = "B/s" if metric.kind == TOTAL else metric.unit
                shown = f"{group.name}{device} {metric.name}".replace("memory memory", "memory")
                found.append((f"{key}{device}.{name}", shown, unit, one))
    return found
