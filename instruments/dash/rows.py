"""The rows of the dashboard, one function for each kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from instruments.dash import cells, figures
from instruments.dash.board import Board, Flow, Given, Meter, Task, Trend
from instruments.dash.drawing import TIMES, Line, Span, bar, sparkline
from instruments.dash.grid import Grid

_HOT = 0.95
#: Width of one "12.1/32.0 GiB", and of the notes "231 W  64 °C" behind it.
_MEMORY, _NOTES = 13, 14
#: The least width of one cell with another key.
_CELL = 36
_GAP = 3
_COUNT, _NAME = 8, 10
_MOST_GPUS = 8
#: Two kinds of traffic stand side by side when the second has this much room.
_FLOW = 34

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """A line and how readily it is given up when there are too many: 0 is never."""

    line: Line
    rank: int


def header(board: Board, width: int) -> Line:
    """A rule with the script's name and the time since its start."""
    clock = figures.duration(board.elapsed)
    name = cells.clip(board.title, width - len(clock) - 9)
    rule = "─" * (width - cells.width(name) - len(clock) - 7)
    ends = ("──", "rule")
    return (ends, (f" {name} ", "title"), (rule, "rule"), (f" {clock} ", "dim"), ("─", "rule"))


def task_rows(task: Task, grid: Grid) -> Iterator[Row]:
    """A task's progress, loss, rate and shares, as far as they are known."""
    yield Row(_progress(task, grid), 1)
    if task.loss:
        yield Row(_loss(task.loss, task.through, grid), 2)
    if task.rate:
        yield Row(_rate(task.rate, task, grid), 3)
    if task.loading is not None:
        yield Row(_loading(task.loading, task.compute, grid), 5)


def _progress(task: Task, grid: Grid) -> Line:
    if task.done is None or not task.total:
        count = figures.amount(task.steps if task.done is None else task.done)
        blank = ((" " * grid.graph, ""),)
        return grid.row(task.name, "task", blank, count, grid.words(["steps"]))
    fraction = task.fraction
    finished = fraction >= 1
    graph = bar(fraction, grid.graph, "done" if finished else "progress")
    left = "" if finished or task.left is None else figures.duration(task.left)
    if grid.narrow:
        return grid.row(task.name, "task", graph, f"{left}  {figures.percent(fraction)}")
    progress = f"{figures.amount(task.done)}/{figures.amount(task.total)}"
    words = grid.words([progress, left and f"{left} left"])
    return grid.row(task.name, "task", graph, figures.percent(fraction), words)


def _loss(loss: Trend, through: float | None, grid: Grid) -> Line:
    graph = sparkline(loss.points, grid.graph, "loss", through=through)
    named = (("first", loss.first), ("min", loss.low))
    words = grid.words([f"{n} {figures.number(v)}" for n, v in named if v is not None])
    return grid.row("  loss", "label", graph, figures.number(loss.last), words)


def _rate(rate: Trend, task: Task, grid: Grid) -> Line:
    # From zero: a steady rate is then a flat line, not magnified noise.
    graph = sparkline(rate.points, grid.graph, "rate", floor=0.0, through=task.through)
    value = figures.number(rate.last)
    if grid.narrow:
        value = cells.join([value, task.units], grid.value, gap=" ")
    return grid.row("  rate", "label", graph, value, grid.words([task.units]))


def _loading(loading: float, compute: float | None, grid: Grid) -> Line:
    graph = bar(loading, grid.graph, "loading")
    words = grid.words([f"compute {figures.percent(compute)}"] if compute is not None else [])
    return grid.row("  loading", "label", graph, figures.percent(loading), words)


def machine_rows(board: Board, grid: Grid) -> Iterator[Row]:
    """The host's meters, the GPUs' and the traffic."""
    for index, meter in enumerate(board.host):
        yield Row(_meter(meter, grid), 7 if index else 4)
    yield from (Row(line, 4) for line in _gpus(board.gpus, grid))
    if board.flows:
        yield from (Row(line, 6) for line in _flows(board.flows, grid))


def _gpus(gpus: Sequence[Meter], grid: Grid) -> list[Line]:
    """One row each for two; more share rows; too many are one row for all."""
    if len(gpus) <= 2:
        return [_meter(meter, grid) for meter in gpus]
    if grid.narrow or len(gpus) > _MOST_GPUS:
        return [_meter(together(gpus), grid)]
    return in_columns(gpus, _gpu, grid.width)


def together(meters: Sequence[Meter]) -> Meter:
    """Many devices as one: the mean of their loads, the sum of their memory."""
    loads = [meter.load for meter in meters if meter.load is not None]
    return Meter(
        label=f"{len(meters)} gpus",
        load=math.fsum(loads) / len(loads) if loads else None,
        used=sum(meter.used or 0.0 for meter in meters),
        total=sum(meter.total or 0.0 for meter in meters),
    )


def _meter(meter: Meter, grid: Grid) -> Line:
    graph = bar(meter.load or 0.0, grid.graph, "load")
    load = "" if meter.load is None else figures.percent(meter.load)
    if grid.narrow:
        used = "" if meter.used is None else figures.gibibytes(meter.used)
        return grid.row(meter.label, "label", graph, f"{used}  {load}")
    room = min(20, max(3, grid.detail - _MEMORY - _NOTES - 1))
    notes = cells.join(meter.notes, grid.detail - room - _MEMORY - 3)
    detail = (*_memory(meter, room), (f"  {notes}", "dim"))
    return grid.row(meter.label, "label", graph, load, detail)


def _memory(meter: Meter, room: int) -> Line:
    if meter.used is None or not meter.total:
        return ((" " * (room + 1 + _MEMORY), ""),)
    fraction = meter.used / meter.total
    amount = cells.right(figures.of_total(meter.used, meter.total), _MEMORY)
    style = "hot" if fraction > _HOT else "memory"
    return (*bar(fraction, room, style), (f" {amount}", "dim"))


def _gpu(meter: Meter, room: int) -> Line:
    """One of many GPUs: load and memory, no notes."""
    load = "" if meter.load is None else figures.percent(meter.load)
    used = "" if meter.used is None else figures.gibibytes(meter.used)
    graph = bar(meter.load or 0.0, room - 7 - 7 - 10, "load")
    name = (f"{cells.left(meter.label, 6)} ", "label")
    return (name, *graph, (cells.right(load, 7), "value"), (cells.right(used, 10), "dim"))


def _flows(flows: Sequence[Flow], grid: Grid) -> Iterator[Line]:
    lines = [_flow(flow, grid) for flow in flows]
    if len(flows) != 2 or grid.detail < _FLOW:
        yield from lines
        return
    room = grid.graph + grid.value + 3
    yield lines[0][0], (cells.left(lines[0][1][0], room), "dim"), *_flow(flows[1], grid, 7)


def _flow(flow: Flow, grid: Grid, label: int | None = None) -> tuple[Span, Span]:
    name = f" {cells.left(flow.label, grid.label)} " if label is None else f"{flow.label:{label}} "
    ways = [(way, figures.megabytes(speed)) for way, speed in flow.ways]
    words = "  ".join(f"{way} {speed:>5}" for way, speed in ways) + " MB/s"
    room = grid.width - len(name)
    if len(words) > room:
        words = " ".join(f"{way} {speed}" for way, speed in ways) + " MB/s"
    return (name, "label"), (cells.clip(words, room), "dim")


def given_lines(given: Sequence[Given], width: int, most: int) -> list[Line]:
    """Every other key in at most ``most`` rows; the last row says how many had no room."""
    across = how_many(width)
    if len(given) <= most * across:
        return in_columns(given, _given, width)
    if most < 1:
        return []
    full = (most - 1) * across
    last = _last_given(given[full:], width) if across == 1 else None
    if last is None:
        full = most * across - 1
        return in_columns([*given[:full], Given(_more(len(given) - full), "", 0)], _given, width)
    return [*in_columns(given[:full], _given, width), last]


def _last_given(given: Sequence[Given], width: int) -> Line:
    """As many keys as fit into one row without their counts."""
    words = [f"{item.label} {item.value}" for item in given]
    room = width - 1
    kept = len(words)
    while kept > 1 and cells.width("  ".join([*words[:kept], _more(len(words) - kept)])) > room:
        kept -= 1
    shown = cells.clip("  ".join(words[:kept]), room - len(_more(len(words) - kept)) - 2)
    return ((f" {shown}", "value"), (f"  {_more(len(words) - kept)}", "dim"))


def _more(count: int) -> str:
    return f"+ {count} more" if count else ""


def _given(item: Given, room: int) -> Line:
    if not item.count:
        return ((cells.left(item.label, room), "dim"),)
    count = cells.right(f"{TIMES}{figures.number(item.count)}", _COUNT)
    # The value gets what it needs, but never all of the name's room.
    value = cells.clip(item.value, room - _COUNT - _NAME - 1)
    name = cells.left(item.label, room - _COUNT - 1 - cells.width(value))
    return ((f"{name} ", "label"), (value, "value"), (count, "dim"))


def how_many(width: int) -> int:
    """How many cells stand side by side."""
    return max(1, (width - 1 + _GAP) // (_CELL + _GAP))


def in_columns(items: Sequence[T], draw: Callable[[T, int], Line], width: int) -> list[Line]:
    """``items`` drawn in cells of equal width, row by row."""
    across = how_many(width)
    room = (width - 1 - _GAP * (across - 1)) // across
    lines = []
    for start in range(0, len(items), across):
        parts = [draw(item, room) for item in items[start : start + across]]
        lines.append(tuple(span for part in parts for span in ((" " * _GAP, ""), *part)))
    # The first cell starts after the margin of one that all rows have.
    return [((" ", ""), *line[1:]) for line in lines]
