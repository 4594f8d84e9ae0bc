"""The dashboard in words: for one line in a log, and for a window too low for rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from instruments.dash.board import Board, Meter, Task
from instruments.dash.figures import amount, duration, number, of_total, percent


def one_line(board: Board) -> str:
    """Everything that matters on one line: script, tasks, machine."""
    parts = [f"{board.title} {duration(board.elapsed)}"]
    parts += [", ".join([task.name, *task_words(task)]) for task in board.tasks]
    parts += [", ".join(meter_words(meter)) for meter in (*board.host, *board.gpus)]
    if board.empty:
        parts.append("nothing given yet")
    if not board.tasks:
        parts += [f"{item.label} {item.value}" for item in board.given[:4]]
    return " | ".join(parts)


def task_words(task: Task) -> Iterator[str]:
    """A task's figures, the most wanted first."""
    yield from progress_words(task)
    if task.loss:
        yield f"loss {number(task.loss.last)}"
    if task.rate:
        yield f"{number(task.rate.last)} {task.units}"
    if task.loading is not None and task.compute is not None:
        yield f"loading {percent(task.loading)} compute {percent(task.compute)}"


def progress_words(task: Task) -> Iterator[str]:
    """How far a task is and how long it will take."""
    if task.done is None or not task.total:
        yield f"{amount(task.steps if task.done is None else task.done)} steps"
        return
    yield percent(task.fraction)
    yield f"{amount(task.done)}/{amount(task.total)}"
    if task.left is not None and task.done < task.total:
        yield f"{duration(task.left)} left"


def meter_words(meter: Meter) -> Iterator[str]:
    """A device's load and memory."""
    yield meter.label if meter.load is None else f"{meter.label} {percent(meter.load)}"
    if meter.used is not None and meter.total:
        yield of_total(meter.used, meter.total)


def current(tasks: Sequence[Task]) -> Task:
    """The task to show when there is room for one: the latest that is not finished."""
    running = [task for task in tasks if task.total and not task.finished]
    return running[-1] if running else tasks[0]
