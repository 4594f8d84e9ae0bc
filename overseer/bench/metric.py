"""The metric of a bench: found by its name, read from each process's record."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from ..model.catalogue import DOWN, RATE, RUN_METRICS, TASK_METRICS, UP, lower_is_better
from ..model.facts import main_task, number, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ..model.catalogue import Metric
    from ..model.facts import Facts

#: The time of a whole process, its start included.
WALL = "wall"
#: The last loss of the main task, unless the script logs one.
LOGGED_LOSS = "loss"
#: The rates of the main task, the best first: a run that was never steady has no steady rate.
_DEFAULTS = ("rate.steady", "rate.wall")
#: What is read of a given key.
LAST_VALUE, BEST_VALUE, MEAN_VALUE = "last", "best", "mean"


class Chosen(NamedTuple):
    """A metric and how to show it.

    Attributes:
        key: As in the record: ``train.rate.steady``, ``wall``, ``accuracy.last``.
        unit: Its unit; ``1`` for plain numbers.
        better: ``up``, ``down``, or empty if neither is.
        note: Why it is not the one that was asked for; empty if it is.
    """

    key: str
    unit: str
    better: str
    note: str = ""

    def as_facts(self) -> dict[str, Any]:
        """The metric as ``bench.json`` stores it."""
        return {key: value for key, value in self._asdict().items() if key != "note"}


class Process(NamedTuple):
    """What a metric is read from.

    Attributes:
        facts: ``run.json``, or the facts of a job.
        seconds: Time of the process.
        given: Returns the values of a given key, in order.
    """

    facts: Facts
    seconds: float
    given: Callable[[str], Iterable[float]]


def value(key: str, process: Process) -> float | None:
    """The value of a metric of one process; None if it has none."""
    if key == WALL:
        return process.seconds
    task, _, path = key.partition(".")
    for facts, at in ((part(process.facts, "tasks", task), path), (process.facts, key)):
        found = number(facts, at) if facts and at else None
        if found is not None:
            return found
    name, _, which = key.rpartition(".")
    if which == MEAN_VALUE and name:
        listed = [each for each in process.given(name) if number(each) is not None]
        return sum(listed) / len(listed) if listed else None
    values = part(process.facts, "values")
    if which in (LAST_VALUE, BEST_VALUE):
        return number(part(values, name), which)
    if key == LOGGED_LOSS and key not in values:
        return number(main_task(process.facts), f"{key}.{LAST_VALUE}")
    return number(part(values, key), LAST_VALUE)


def chosen(key: str, processes: Sequence[Process]) -> Chosen:
    """The metric of that name, with its unit as the processes have it."""
    if key == WALL:
        return Chosen(WALL, "s", DOWN)
    metric = _catalogued(key)
    if metric is None:
        name = (
            key.rpartition(".")[0]
            if key.rpartition(".")[2] in (LAST_VALUE, BEST_VALUE, MEAN_VALUE)
            else key
        )
        return Chosen(key, "1", DOWN if lower_is_better(name) else UP)
    unit = metric.unit
    if metric.kind == RATE:
        unit = f"{units(key, processes[0]) if processes else 'items'}/s"
    return Chosen(key, unit, metric.better)


def learned(key: str) -> bool:
    """Whether a metric is a result of the script, which its seed changes, and no cost."""
    metric = _catalogued(key)
    return key != WALL if metric is None else key.rpartition(".")[0].endswith(".loss")


def units(key: str, process: Process) -> str:
    """The unit of the items of a rate's task."""
    return str(part(process.facts, "tasks", key.partition(".")[0]).get("units") or "items")


def _catalogued(key: str) -> Metric | None:
    path = key.partition(".")[2]
    for name, metric in (*TASK_METRICS.items(), *RUN_METRICS.items()):
        if name == path and path in TASK_METRICS:
            return metric
        words = ".".join(word for word in key.split(".") if not word.isdecimal())
        if fnmatchcase(words, name) and name in RUN_METRICS:
            return metric
    return None


def default(processes: Sequence[Process]) -> Chosen:
    """The metric of processes when none is named: the best one that all of them have.

    The steady rate of the main task, else its overall rate, else the wall time.
    """
    names = {name for name in map(main, processes) if name}
    if len(names) == 1:
        task, note = names.pop(), ""
        for path in _DEFAULTS:
            key = f"{task}.{path}"
            lack = sum(value(key, process) is None for process in processes)
            if not lack:
                steady = path == _DEFAULTS[0]
                found, many = chosen(key, processes), len(processes)
                never = sum(value(f"{task}.{_DEFAULTS[0]}", each) is None for each in processes)
                note = f"{never} of {many} processes were never steady: overall rates are compared"
                return found if steady else found._replace(note=note)
    return Chosen(
        WALL, "s", DOWN, "not all processes have steps of one task: wall times are compared"
    )


def main(process: Process) -> str:
    """The name of a process's main task; empty without one."""
    task = main_task(process.facts)
    tasks = part(process.facts, "tasks")
    return next((name for name in tasks if tasks[name] == task), "") if task else ""


def names(process: Process) -> list[str]:
    """The metrics that a process has."""
    found = [WALL, *(key for key in RUN_METRICS if number(process.facts, key) is not None)]
    for task, facts in part(process.facts, "tasks").items():
        found += [f"{task}.{key}" for key in TASK_METRICS if number(facts, key) is not None]
    return found + [f"{key}.{LAST_VALUE}" for key in part(process.facts, "values")]
