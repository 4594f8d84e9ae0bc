"""The layout: a board and a size in, at most so many rows out, none wider than the terminal.

Rows keep their order for the whole run; when there are too many, the least important go first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instruments.dash import cells
from instruments.dash.board import Board, Task
from instruments.dash.drawing import Line, bar, cut, sparkline
from instruments.dash.figures import duration, number, percent
from instruments.dash.grid import Grid
from instruments.dash.rows import Row, given_lines, header, machine_rows, task_rows
from instruments.dash.words import current, meter_words

#: A terminal with fewer rows gets the low form.
LOW = 12
_MOST = 24
_KEPT_FOR_GIVEN = 2


def height(rows: int) -> int:
    """How many rows of a terminal the dashboard may take; most stay the script's own."""
    return min(_MOST, rows // 2) if rows >= LOW else max(0, min(3, (rows - 2) // 2))


def lay_out(board: Board, columns: int, most: int) -> list[Line]:
    """At most ``most`` lines of at most ``columns - 1`` cells."""
    # The columns add up; but a window can be narrower than all of them.
    return [cut(line, columns - 1) for line in _lines(board, Grid(columns), most)]


def _lines(board: Board, grid: Grid, most: int) -> list[Line]:
    if most <= 3:
        return list(_low(board, grid.width))[:most]
    rows = [Row(header(board, grid.width), 0)]
    if board.empty:
        return [rows[0].line, ((" nothing given yet", "dim"),)]
    for task in _visible(board.tasks, most // 3):
        rows += task_rows(task, grid)
    rows += machine_rows(board, grid)
    # What somebody asked to see goes before what is always there.
    kept = min(_KEPT_FOR_GIVEN, len(given_lines(board.given, grid.width, most)))
    lines = _fit(rows, most - kept)
    return lines + given_lines(board.given, grid.width, most - len(lines))


def _visible(tasks: Sequence[Task], room: int) -> list[Task]:
    """The tasks that are shown: the finished ones, then the oldest, give way to the others."""
    kept = list(tasks)
    while len(kept) > room:
        finished = (index for index, task in enumerate(kept) if task.finished)
        del kept[next(finished, 0)]
    return kept


def _fit(rows: Sequence[Row], most: int) -> list[Line]:
    kept = list(rows)
    while len(kept) > most:
        worst = max(row.rank for row in kept)
        # The last of equals goes: the first task and the first device were there before.
        del kept[max(i for i, row in enumerate(kept) if row.rank == worst)]
    return [row.line for row in kept]


def _low(board: Board, width: int) -> Iterator[Line]:
    """Three rows: progress, loss and rate, machine or other keys."""
    if not board.tasks:
        yield ((cells.join([board.title, duration(board.elapsed)], width), "dim"),)
    else:
        yield _low_progress(current(board.tasks), width)
        told = [task for task in board.tasks if task.loss or task.rate]
        if told:
            yield _low_figures(current(told), width)
    machine = [word for meter in (*board.gpus, *board.host) for word in meter_words(meter)]
    other = [f"{item.label} {item.value}" for item in board.given]
    yield ((cells.join(machine or other or ["nothing given yet"], width), "dim"),)


def _low_progress(task: Task, width: int) -> Line:
    name = f"{cells.clip(task.name, width // 3)} "
    if task.done is None or not task.total:
        return (name, "task"), (f"{number(task.steps)} steps", "value")
    fraction = task.fraction
    words = f" {percent(fraction):>5}"
    if task.left is not None and fraction < 1:
        words += f" {duration(task.left)}"
    room = width - cells.width(name) - len(words)
    return (name, "task"), *bar(fraction, room, "progress"), (words, "value")


def _low_figures(task: Task, width: int) -> Line:
    words = cells.join(_figures(task), width)
    room = width - cells.width(words) - 2
    if task.loss is None or room < 6:
        return ((words, "value"),)
    return (words, "value"), ("  ", ""), *sparkline(task.loss.points, room, "loss")


def _figures(task: Task) -> Iterator[str]:
    if task.loss:
        yield f"loss {number(task.loss.last)}"
    if task.rate:
        yield f"{number(task.rate.last)} {task.units}"
