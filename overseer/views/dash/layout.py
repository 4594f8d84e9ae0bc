"""Lays a board out in lines, none wider than the terminal."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...model.facts import breakdown, duration, percent, size
from ...model.facts import number as fact
from ..text import cells, cut
from .text import (
    BLANK,
    FULL,
    TIMES,
    area,
    bar,
    clock,
    count,
    gauge,
    joined,
    left,
    number,
    padded,
    tick,
    width,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .board import Board, History, Meter, RankRow, TaskPanel
    from .text import Line, Span

#: Smaller terminals get plain lines.
LEAST_COLUMNS, LEAST_ROWS = 40, 12
#: Least rows that the script keeps, besides a third of all.
_KEPT = 5
#: Rows of a plot: least; most of a task other than the first; most.
_LOW, _SECOND, _HIGH = 3, 7, 32
_AXIS, _LABEL, _GAP, _CELL = 8, 10, 3, 24
#: A loss that spans this factor gets a logarithmic axis.
_DECADES = 20.0
#: A rate's axis spans at least this part of the highest rate.
_LEAST_SPAN = 0.25
#: From this number of GPUs, two share a row.
_SHARED = 3
_HOT = 0.95
#: From this width, the load of each processor is shown.
_EACH = 200
_SHORT = {"optimizer": "optim", "communication": "comm", "forward": "fwd", "backward": "bwd"}
_MIB = 1024.0**2
#: Styles of the curves of other runs.
_OTHERS = ("loading", "optimizer", "bad")


class View(NamedTuple):
    """What of a board is shown.

    Attributes:
        task: The task that is shown alone; empty for all.
        seconds: The length of the latest time that curves show; None for the whole run.
        log: A logarithmic axis for the loss; None: as its values need it.
        only: Of other numbers, those whose names contain this.
    """

    task: str = ""
    seconds: float | None = None
    log: bool | None = None
    only: str = ""


_EVERYTHING = View()


class BoardLine(NamedTuple):
    """A line, and its rank of omission: 0 is never, the highest first."""

    line: Line
    rank: int


def height(rows: int) -> int:
    """The rows that the dashboard may take; the script keeps the others."""
    return rows - max(_KEPT, rows // 3)


def lay_out(board: Board, columns: int, most: int, view: View = _EVERYTHING) -> list[Line]:
    """Lay out at most ``most`` lines of at most ``columns - 1`` cells.

    The last column stays free: a character there puts the cursor into its wrap state.
    """
    room = columns - 1
    rows = [BoardLine(_header(board, room), 0)]
    if board.empty and not board.ranks:
        return [rows[0].line, ((" waiting for the first step", "dim"),)]
    chosen = [task for task in board.tasks.values() if task.name == view.task]
    tasks = _visible(chosen or list(board.tasks.values()), max(1, most // 5))
    rows += [BoardLine(line, 1) for line in _legend_of_runs(tasks, room)]
    graph = 1 if most < 22 else 2 if most < 34 else 3
    plots: list[tuple[int, TaskPanel]] = []
    for task in tasks:
        rows.append(BoardLine(_progress(task, board, room, bool(plots)), 1))
        if _told(task):
            # The first task is the main one; others have their figures in one row.
            rows.append(
                BoardLine((), 9) if plots else BoardLine(_figures(task, room, mini=True), 2)
            )
            plots.append((len(rows) - 1, task))
    rows += _steps(tasks, room)
    rows += _machine(board, room, graph)
    rows += [BoardLine(line, 3) for line in _ranks(board.ranks, room, max(2, most // 3))]
    scalars = [each for each in board.scalars if view.only in each[0]]
    given = _given(scalars, room, max(1, most // (2 if view.only else 6)))
    rows += [BoardLine(line, 4 if at == 0 else 8) for at, line in enumerate(given)]
    return _with_plots(rows, plots, room, most, view)


def courses(board: Board, columns: int, most: int) -> list[Line]:
    """The curves of the first task that has any, without the summary's figures."""
    room, high = columns - 1, min(_SECOND, most - 2)
    task = next(filter(_drawn, board.tasks.values()), None)
    if task is None or high < _LOW:
        return []
    titles = {"loss": "loss", "rate": f"rate in {task.units}"}
    title = _beside([((titles[style], "dim"),) for style, *_ in _told(task)], room)
    lines = title, *_plots(task, _span([task], _EVERYTHING), room, high, _EVERYTHING)
    return [padded(line, room) for line in lines]


def _drawn(task: TaskPanel) -> bool:
    """Whether a task has a curve to draw."""
    return max(task.loss.points, task.rate.points) > 1


def _with_plots(
    rows: list[BoardLine], plots: list[tuple[int, TaskPanel]], room: int, most: int, view: View
) -> list[Line]:
    """The rows that fit; room left over turns figures into plots, or makes plots higher."""
    kept = [[row.line] if row.line else [] for row in rows]
    total = sum(map(len, kept))
    while total > most:
        worst = max(row.rank for row, lines in zip(rows, kept, strict=True) if lines)
        last = max(at for at, row in enumerate(rows) if kept[at] and row.rank == worst)
        kept[last], total = [], total - 1
    free = most - total
    plots = [(at, task) for at, task in plots if _drawn(task)]
    if free <= _LOW:
        plots = []
    span = _span([task for _, task in plots], view)
    over = free - 1 - 2 * _SECOND  # Room that the first task does not need.
    while len(plots) > 1 and over // (len(plots) - 1) <= _LOW:
        plots.pop()
    share = min(_SECOND, over // max(1, len(plots) - 1) - 1)
    for place, (at, task) in reversed(list(enumerate(plots))):
        high = share if place else min(free - 1, _HIGH)
        figures = () if place else (_figures(task, room, mini=False),)
        kept[at] = [*figures, *_plots(task, span, room, high, view)]
        free -= high + 1
    return [padded(line, room) for lines in kept for line in lines]


def _visible(tasks: list[TaskPanel], most: int) -> list[TaskPanel]:
    """The tasks that are shown: finished ones are omitted first, then the latest."""
    while len(tasks) > most:
        done = (at for at, task in enumerate(tasks) if task.of and task.done >= task.of)
        del tasks[next(done, -1)]
    return tasks


def _header(board: Board, room: int) -> Line:
    """A rule with the script's name and the elapsed time; in a job, the rank that is shown."""
    time = clock(board.now - board.start)
    of = f" · rank {board.rank} of {len(board.ranks)}" if len(board.ranks) > 1 else ""
    title = board.title + of
    name = cut(title, max(1, room - len(time) - 9))
    rule = "─" * (room - cells(name) - len(time) - 7)
    start = ("──", "dim"), (f" {name} ", "bold"), (rule, "dim")
    return (*start, (f" {time} ", "bold"), ("─", "dim"))


def _progress(task: TaskPanel, board: Board, room: int, figures: bool) -> Line:
    """A task's progress in its unit and the time left; with ``figures``, these too."""
    name = (f" {left(task.name, _LABEL)} ", "bold")
    steps, items = fact(task.facts, "steps"), fact(task.facts, "items")
    words = [f"step {count(steps)}"] if steps else []
    if not task.of:
        words += [f"{count(items)} items"] if items else []
        words += [f"{name} {told[0]}" for name, _, told in _told(task) if figures]
        return name, (joined(words, room - _LABEL - 2, " · "), "")
    done = joined([f"{count(task.done)}/{count(task.of)}", task.unit], 40, " ")
    ending = _left(task, board.now)
    done = joined([_turn(task), done], 60, " · ")
    text = f"{percent(task.done / task.of) or '':>6}  {joined([done, *words], room // 2, ' · ')}"
    graph = room - width((name,)) - cells(text) - (len(ending) + 2 if ending else 0) - 1
    style = "done" if task.done >= task.of else "progress"
    spans = (name, *gauge(task.done / task.of, max(4, min(graph, room // 2)), style), (text, ""))
    gap = room - width(spans) - len(ending)
    return (*spans, (" " * gap + ending, "bold")) if ending and gap > 1 else spans


def _turn(task: TaskPanel) -> str:
    """The epoch of a task's bar, of how many."""
    if task.turn is None:
        return ""
    kind = "epoch" if "epoch" in task.name.lower() else "turn"
    return f"{kind} {count(task.turn[0])}/{count(task.turn[1])}"


def _left(task: TaskPanel, now: float) -> str:
    """The time left of the run; of a bar that may be one of several, its own."""
    time = task.left(now)
    if time is None:
        return ""
    return f"{clock(time)} left" + (" of this bar" if task.bar and task.turn is None else "")


# Loss and rate


def _halves(room: int) -> tuple[int, int]:
    """The widths of two columns."""
    one = (room - 1 - _GAP) // 2
    return one, room - 1 - _GAP - one


def _beside(pair: Sequence[Line], room: int) -> Line:
    """Two lines side by side; a single one over the full width."""
    if len(pair) == 1:
        return ((" ", ""), *padded(pair[0], room - 1))
    one, other = _halves(room)
    gap = (" " * _GAP, "")
    return ((" ", ""), *padded(pair[0], one), gap, *padded(pair[1], other))


def _told(task: TaskPanel) -> list[tuple[str, History, list[str]]]:
    """The known ones of loss and rate: name, curve, and figures by rank."""
    facts, loss, rate = task.facts, [], []
    last = facts.get("loss", {}).get("last")
    if last is not None:
        odd = fact(facts, "loss.not_finite")
        more = (("min", fact(facts, "loss.min")), ("first", fact(facts, "loss.first")))
        loss = [number(last), f"{count(odd)} not finite" if odd else ""]
        loss += [f"{name} {number(value)}" for name, value in more if value is not None]
    if task.now is not None:
        more = (("steady", fact(facts, "rate.steady")), ("overall", fact(facts, "rate.wall")))
        rate = [f"{number(task.now)} {task.units}"]
        rate += [f"{name} {number(value)}" for name, value in more if value]
    both = ("loss", task.loss, loss), ("rate", task.rate, rate)
    return [each for each in both if each[2]]


def _figures(task: TaskPanel, room: int, mini: bool) -> Line:
    """Loss and rate in figures; with ``mini``, with small curves."""
    shown, lines = _told(task), []
    each = _halves(room)[0] if len(shown) > 1 else room - 1
    for style, history, (first, *more) in shown:
        line: Line = (f"{style} ", "dim"), (first, "bold")
        rest = each - width(line) - 1
        if not mini:
            lines.append((*line, (f"  {joined(more, rest - 1)}", "dim")))
            continue
        values = history.over(history.start or 0.0, history.end, rest) if rest >= 4 else []
        known = [value for value in values if value is not None]
        axis = _Axis(known, rate=style == "rate")
        levels = [axis.part(value) if value == value else 0.0 for value in known]
        lines.append((*line, (" ", ""), *area(levels, max(0, rest), 1, style)[0]))
    return _beside(lines, room)


class _Axis:
    """A vertical axis.

    Args:
        values: The values; NaN is ignored.
        rate: Let the axis span at least a quarter of the highest value, so that a steady rate is a
            level line. Otherwise the axis is logarithmic if the values span decades.
        log: Whether the axis is logarithmic, if the values allow it; None: as described.
    """

    def __init__(self, values: Sequence[float], rate: bool, log: bool | None = None) -> None:
        known = [value for value in values if value == value]
        low, high = min(known, default=0.0), max(known, default=1.0)
        wanted = high / low >= _DECADES if log is None and low > 0 else bool(log)
        self.log = not rate and low > 0 and wanted
        if rate:
            around = max(high - low, _LEAST_SPAN * abs(high)) * 1.2
            middle = (low + high) / 2
            low, high = max(min(low, 0.0), middle - around / 2), middle + around / 2
        if self.log:
            low, high = math.log(low), math.log(high)
        if high - low <= max(1e-9 * abs(high), 1e-300):  # A constant value is drawn in the middle.
            low, high = (low - 0.5, high + 0.5) if high else (0.0, 1.0)
        self.low, self.high = low, high

    def part(self, value: float) -> float:
        """The height of a value: 0 at the bottom, 1 at the top."""
        value = math.log(value) if self.log else value
        return (value - self.low) / (self.high - self.low)

    def labels(self, high: int) -> dict[int, str]:
        """Round values by their row, of ``high`` rows from the top."""
        room = max(2, high // 3)
        if self.log:
            low, top = math.exp(self.low), math.exp(self.high)
            many = math.log10(top / low)
            decades = range(math.floor(math.log10(low)), math.floor(math.log10(top)) + 1)
            every = max(1, math.ceil(many / (room + 1)))
            steps = (1, 2, 5) if many * 2 <= room else (1,)
            values = [m * 10.0**decade for m in steps for decade in decades[::every]]
        else:
            span = (self.high - self.low) / room
            size = 10.0 ** math.floor(math.log10(span))
            size *= next(m for m in (1, 2, 5, 10) if m * size >= span * 0.7)
            low, top = self.low, self.high
            values = [n * size for n in range(math.ceil(low / size), math.floor(top / size) + 1)]
        rows: dict[int, float] = {}
        for value in values:
            row = round((1 - self.part(value)) * (high - 1)) if low <= value <= top else -1
            if 0 <= row < high and not {row - 1, row, row + 1} & rows.keys():
                rows[row] = value
        if len(rows) < 2:  # Too few rows for two round values: label the ends.
            rows = {0: top, high - 1: low}
        shown: dict[int, str] = {}
        for digits in (3, 4, 5):  # Enough digits to distinguish them.
            shown = {row: tick(value, digits) for row, value in rows.items()}
            if len(set(shown.values())) == len(shown):
                break
        once = {text: row for row, text in shown.items() if len(text) < _AXIS}
        return {row: text for text, row in once.items()}


def _span(tasks: Sequence[TaskPanel], view: View) -> tuple[float, float]:
    """The time span that all plots share, so that they align."""
    every = [*tasks, *(other for task in tasks for _, other in task.beside)]
    known = [h for task in every for h in (task.loss, task.rate) if h.start is not None]
    start = min((history.start or 0.0 for history in known), default=0.0)
    end = max([start + 1e-3, *(history.end for history in known)])
    return max(start, end - view.seconds) if view.seconds else start, end


def _plots(
    task: TaskPanel, span: tuple[float, float], room: int, high: int, view: View
) -> Iterator[Line]:
    """Plots of loss and rate, side by side."""
    shown = [(style, history) for style, history, _ in _told(task)]
    rooms = _halves(room) if len(shown) > 1 else (room - 1,)
    columns = [
        _plot([history, *_beside_of(task, style)], span, each, high, style, view)
        for (style, history), each in zip(shown, rooms, strict=True)
    ]
    for pair in zip(*columns, strict=True):
        yield _beside(pair, room)


def _beside_of(task: TaskPanel, style: str) -> list[History]:
    """The curves of other runs that are drawn over a task's."""
    return [other.loss if style == "loss" else other.rate for _, other in task.beside]


def _legend_of_runs(tasks: Sequence[TaskPanel], room: int) -> list[Line]:
    """The other runs that are drawn over this one, in their colours, with their last figures."""
    made: list[Line] = []
    for task in tasks[:1]:
        for (name, other), style in zip(task.beside, _OTHERS, strict=False):
            figures = [f"{kind} {told[0]}" for kind, _, told in _told(other)]
            steps = fact(other.facts, "steps")
            said = joined([*figures, f"step {count(steps)}" if steps else ""], room // 2, " · ")
            text = f" over it: {cut(name, max(8, room - cells(said) - 16))}"
            made.append(((text, style), (f"  {said}", "")))
    return made


def _plot(
    histories: Sequence[History], span: tuple[float, float], room: int, high: int, style: str,
    view: View,
) -> list[Line]:  # fmt: skip
    """A plot in braille of a run, and of others; a loss has a smoothed curve over the raw one."""
    wide, history = room - _AXIS - 1, histories[0]
    values = history.over(*span, 2 * wide)
    curves = [each.over(*span, 2 * wide) for each in histories[1:]]
    log = None if style == "rate" else view.log
    known = [v for each in (values, *curves) for v in each if v is not None]
    axis = _Axis(known, style == "rate", log)
    places = [None if v is None or v != v else axis.part(v) for v in values]
    odd = {x // 2 for x, value in enumerate(values) if value is not None and value != value}
    curve, raw = _Dots(wide, high), _Dots(wide, high)
    if style == "loss":
        for x, between in enumerate(history.spread(*span, 2 * wide)):
            if between is not None:
                raw.column(x, *map(axis.part, between))
        raw.curve(places)
        places = _smoothed(places)
    curve.curve(places)
    others = [_Dots(wide, high) for _ in curves]
    for dots, each in zip(others, curves, strict=True):
        dots.curve([None if v is None or v != v else axis.part(v) for v in each])
    labels = axis.labels(high)
    lines: list[Line] = []
    for row in range(high):
        label = (f"{labels.get(row, ''):>{_AXIS - 1}} {'┤' if row in labels else '│'}", "dim")
        marks = odd if row == high - 1 else set()
        under = [*zip((dots.rows[row] for dots in others), _OTHERS, strict=False)]
        under.append((raw.rows[row], "dim"))
        lines.append((label, *_cells(curve.rows[row], under, style, marks)))
    return [*lines, _times(span, wide, axis.log, view.seconds is not None)]


def _smoothed(values: Sequence[float | None]) -> list[float | None]:
    """Means over a tenth of the plot around each value, less at the ends."""
    sums, counts = [0.0], [0]
    for value in values:
        sums.append(sums[-1] + (value or 0.0))
        counts.append(counts[-1] + (value is not None))
    made: list[float | None] = []
    for x, value in enumerate(values):
        reach = min(len(values) // 20, x, len(values) - 1 - x)
        low, high = x - reach, x + reach + 1
        mean = (sums[high] - sums[low]) / max(1, counts[high] - counts[low])
        made.append(None if value is None else mean)
    return made


#: The bit of each dot in a braille character, by column, from the bottom up.
_DOT = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))


class _Dots:
    """A picture with two by four dots per cell.

    Attributes:
        rows: The dots of each cell as bits, by row from the top.
    """

    def __init__(self, wide: int, high: int) -> None:
        self.rows = [[0] * wide for _ in range(high)]
        self._top = 4 * high - 1

    def curve(self, places: Sequence[float | None]) -> None:
        """Draw a line through values between 0, the bottom, and 1, the top."""
        before: int | None = None
        for x, place in enumerate(places):
            y = None if place is None else self._dot(place)
            if y is not None:
                low, high = sorted((y if before is None else before, y))
                # From just past the last column's height: a steep line is as thin as a level one.
                if before is not None and high > low:
                    low, high = (low + 1, high) if y > before else (low, high - 1)
                self._fill(x, low, high)
            before = y

    def column(self, x: int, low: float, high: float) -> None:
        """Fill a column between two heights."""
        self._fill(x, self._dot(low), self._dot(high))

    def _dot(self, place: float) -> int:
        return int(min(1.0, max(0.0, place)) * self._top + 0.5)

    def _fill(self, x: int, low: int, high: int) -> None:
        for at in range(low, high + 1):
            self.rows[-1 - at // 4][x // 2] |= _DOT[x % 2][at % 4]


def _cells(
    over: Sequence[int], under: Sequence[tuple[Sequence[int], str]], style: str, marks: set[int]
) -> Line:
    """A row of pictures, one over the others; values that are not finite are marked."""
    spans: list[tuple[str, str]] = []
    for x, bits in enumerate(over):
        kind = style
        for picture, other in under:
            if not bits and picture[x]:
                bits, kind = picture[x], other
        text = TIMES if x in marks else chr(ord(BLANK) + bits)
        kind = "bad" if x in marks else kind
        if spans and spans[-1][1] == kind:
            text = spans.pop()[0] + text
        spans.append((text, kind))
    return tuple(spans)


def _times(span: tuple[float, float], wide: int, log: bool, to_now: bool) -> Line:
    """The time axis below a plot: from the start, or back from now."""
    seconds = span[1] - span[0]
    first, last, middle = "0", clock(seconds), clock(seconds / 2) if wide >= 60 else ""
    if to_now:
        first, last, middle = f"-{last}", "now", middle and f"-{middle}"
    gaps = wide - len(first) - len(middle) - len(last)
    if gaps < 2:
        return ((" " * _AXIS + "└", "dim"),)
    half = (wide - len(middle)) // 2 - len(first)
    line = f"{first}{'─' * half}{middle}{'─' * (gaps - half)}{last}"
    return ((f"{'log' if log else '':>{_AXIS - 1}} └{line}", "dim"),)


# Parts of a step


def _steps(tasks: Sequence[TaskPanel], room: int) -> Iterator[BoardLine]:
    """The parts of a step as one bar and its legend, for the task with the most time."""
    split = [(task, parts) for task in tasks if (parts := _parts(task))]
    if not split:
        return
    task, parts = max(split, key=lambda each: fact(each[0].facts, "steps") or 0)
    seconds = fact(task.facts, "step_seconds.median")
    time = duration(seconds) or ""
    name = (" step ", "dim"), (f"{time:<9} ", "bold")
    graph = room - width(name)
    told = _legend(parts, graph - 20)
    one = len(told) == len(parts)
    line = tuple(span for each in told for span in (("  ", ""), *each)) if one else ()
    stacked = bar(parts, graph - width(line))
    yield BoardLine((*name, *stacked, *line), 5 if one else 6)
    if not one:
        told = _legend(parts, room - 1)
        yield BoardLine(((" ", ""), *(span for each in told for span in (*each, ("  ", "")))), 5)


def _legend(parts: Sequence[tuple[str, float]], room: int) -> list[Line]:
    """Each part's colour, name and share, in the longest form that fits; else the first ones."""
    forms: list[list[Line]] = [
        [((FULL, style), (f"{gap}{names.get(style, style)} ", ""), (percent(share) or "", "bold"))
         for style, share in parts]
        for names, gap in (({}, " "), (_SHORT, " "), (_SHORT, ""))
    ]  # fmt: skip
    for legend in forms:
        if sum(width(each) + 2 for each in legend) <= room + 2:
            return legend
    while legend and sum(width(each) + 2 for each in legend) > room + 2:
        legend.pop()
    return legend


def _parts(task: TaskPanel) -> list[tuple[str, float]]:
    """The share of each part of a step; only loading and compute if the parts are unknown."""
    known = breakdown(task.facts)
    if not known:
        shares = {name: fact(task.facts, f"{name}.share") for name in ("loading", "compute")}
        known = {name: share for name, share in shares.items() if share is not None}
    return [(name, share) for name, share in known.items() if share >= 0.005 or name == "loading"]


# The machine


def _machine(board: Board, room: int, high: int) -> Iterator[BoardLine]:
    """Rows of processors and memory, GPUs, traffic."""
    meters = dict(board.meters)
    cpu, own = meters.pop("cpu", None), meters.pop("process", None)
    words = ["", ""]
    if own is not None and cpu is not None:
        load, used = percent(own.load), size(own.used)
        words = [f"script {load}" if load else "", f"script {used}" if own.total else ""]
    if (one := cpu or own) is not None:
        yield from _ranked(_device(one, words, room, high), 3)
        if len(one.cores) > 1 and room >= _EACH - 1:
            yield BoardLine(_cores(one.cores, room), 7)
    gpus = list(meters.values())
    if len(gpus) >= _SHARED:
        cell = [*(_gpu(gpu, _halves(room)[0]) for gpu in gpus), ()]
        for at in range(0, len(gpus), 2):
            yield BoardLine(_beside(cell[at : at + 2], room), 3)
    else:
        for gpu in gpus:
            yield from _ranked(_device(gpu, ("", ""), room, high), 3)
    if board.flows:
        flows = [_flow(label, ways, _halves(room)[0]) for label, ways in board.flows.items()]
        yield BoardLine(_beside(flows, room), 7)


def _cores(loads: Sequence[float], room: int) -> Line:
    """Each processor's load as a column, as wide as fits."""
    shown = list(loads[: room - 9])
    wide = min(4, (room - 9) // len(shown) - 1)
    spans: list[Span] = [(" cores  ", "dim")]
    for load in shown:
        (column,) = area([load] * max(1, wide), max(1, wide), 1, "load")
        spans += [*column, (" " if wide > 0 else "", "")]
    return tuple(spans)


def _ranked(lines: Sequence[Line], rank: int) -> Iterator[BoardLine]:
    """Rank lines: the last one has the figures and is omitted last."""
    for line in lines[:-1]:
        yield BoardLine(line, 9)
    yield BoardLine(lines[-1], rank)


def _device(meter: Meter, words: Sequence[str], room: int, high: int) -> list[Line]:
    """Load and memory with labels and curves, ``high`` rows high."""
    load, (one, other) = percent(meter.load) or "", _halves(room)
    columns = [_course(meter.label, load, words[:1], meter.loads, "load", one, high)]
    if meter.total:
        style = "bad" if meter.used > _HOT * meter.total else "memory"
        notes, used = [words[1], *meter.notes], size(meter.used, meter.total) or ""
        columns.append(_course("memory", used, notes, meter.uses, style, other, high))
    else:
        columns.append([()] * high)
    return [_beside(pair, room) for pair in zip(*columns, strict=True)]


def _course(
    label: str, value: str, notes: Sequence[str], values: Sequence[float], style: str, room: int,
    high: int,
) -> list[Line]:  # fmt: skip
    """A label, its figure and notes, and a curve over the remaining width."""
    start = f"{left(label, 6)} "
    told = joined(notes, max(0, room - len(start) - cells(value) - 2 - 10))
    line: Line = (start, "dim"), (value, "bold"), (f"  {told}" if told else "", "dim")
    # A shorter figure must not move the curve.
    used = min(room, max(width(line) + 1, 18 if high < 2 and not told else 34 if told else 26))
    graph = area(list(values), room - used, high, style)
    return [
        ((" " * used, ""), *row) if at < high - 1 else (*padded(line, used), *row)
        for at, row in enumerate(graph)
    ]


def _gpu(meter: Meter, room: int) -> Line:
    """One of many GPUs in half a row."""
    load = percent(meter.load) or ""
    used = f"  {size(meter.used, meter.total)}" if meter.total else ""
    line: Line = (f"{left(meter.label, 6)} ", "dim"), (f"{load:>5} ", "bold")
    graph = max(0, room - width(line) - cells(used))
    return (*line, *area(list(meter.loads), graph, 1, "load")[0], (used, "dim"))


def _flow(label: str, ways: dict[str, float], room: int) -> Line:
    speeds = [(way, speed / _MIB) for way, speed in ways.items()]
    words = [f"{way} {x:,.0f}" if x >= 99.95 else f"{way} {x:.1f}" for way, x in speeds]
    name = (f"{left(label, 6)} ", "dim")
    return name, (joined(words, room - 13), ""), (" MiB/s", "dim")


# Given values


def _ranks(ranks: Sequence[RankRow], room: int, most: int) -> list[Line]:
    """A row for each rank of a job, the slowest first; the last one counts those without room."""
    if len(ranks) < 2:
        return []
    shown = ranks if len(ranks) <= most else ranks[: most - 1]
    made: list[Line] = []
    for row in shown:
        rate = "" if row.rate is None else f"{number(row.rate)} {row.units.removesuffix('/s')}/s"
        loss = "" if row.loss is None else f"loss {number(row.loss)}"
        waiting = "" if row.waiting is None else f"waiting {percent(row.waiting)}"
        texts = [f" rank {row.rank:<4} ", f"{rate:>18}  ", f"{loss:<15}", f"{waiting:<14}"]
        styles, free = ("dim", "bold", "loss", "communication"), room
        line: list[Span] = []
        for text, style in zip(texts, styles, strict=True):
            line.append((text[:free], style))
            free -= len(text[:free])
        made.append((*line, (cut(row.state[:200], free) if free > 1 else "", "")))
    if len(shown) < len(ranks):
        made.append(((f" + {len(ranks) - len(shown)} more ranks", "dim"),))
    return made


def _given(scalars: Sequence[tuple[str, float | None]], room: int, most: int) -> list[Line]:
    """Other numbers in columns; the last entry counts those without room."""
    across = max(1, (room - 1 + _GAP) // (_CELL + _GAP))
    wide = (room - 1 - _GAP * (across - 1)) // across
    shown, more = list(scalars), len(scalars) - most * across
    if more > 0:
        shown = shown[: max(1, most * across - 1)]
    texts = [(cut(name[:200], 60), "…" if value is None else count(value)) for name, value in shown]
    spans: list[Line] = [
        ((f"{left(name, max(1, wide - 1 - len(value)))} ", "dim"), (value, "bold"))
        for name, value in texts
    ]
    if more > 0 and most * across > 1:
        spans.append(((f"+ {more + 1} more", "dim"),))
    made = []
    for at in range(0, len(spans), across):
        cells_of = [(*padded(line, wide), (" " * _GAP, "")) for line in spans[at : at + across]]
        made.append(((" ", ""), *(span for line in cells_of for span in line)))
    return made


def words(board: Board) -> tuple[str, str]:
    """The board on one line: script, time and main figures; empty if there is nothing yet."""
    parts = []
    for task in board.tasks.values():
        steps = fact(task.facts, "steps")
        loss = fact(task.facts, "loss.last")
        said = [
            _turn(task),
            f"{count(task.done)}/{count(task.of)} {task.unit}".rstrip() if task.of else "",
            f"step {count(steps)}" if steps else "",
            f"loss {number(loss)}" if loss is not None else "",
            f"{number(task.now)} {task.units}" if task.now is not None else "",
            _left(task, board.now),
        ]
        parts.append(", ".join([task.name, *filter(None, said)]))
    for meter in board.meters.values():
        used = size(meter.used, meter.total) if meter.total else None
        parts.append(joined([meter.label, percent(meter.load) or "", used or ""], 80, " "))
    given = [(name, value) for name, value in board.scalars if value is not None][:8]
    parts += [f"{cut(name[:200], 40)} {count(value)}" for name, value in given]
    return f"{cut(board.title, 40)} {clock(board.now - board.start)}", " | ".join(parts)
