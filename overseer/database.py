"""A run as a SQL database: what it recorded, in tables, in memory or in a file."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import VoirError
from .measure.parts import at, part
from .record.numbers import as_number
from .record.reading import Run, read_run
from .trace.reading import NAME, Process, Slice, Thread, Trace, open_trace, trace_file

#: What a task's row holds: paths in its entry of ``run.json``, whose dots are ``_`` in columns.
TASK = (
    "steps", "items", "units", "first_step_seconds",
    "rate.wall", "rate.steady", "rate.median", "rate.q1", "rate.q3", "rate.n", "rate.skipped",
    "rate.clock", "steady.verdict", "steady.from_step",
    "step_seconds.median", "step_seconds.q1", "step_seconds.q3",
    "loading.seconds", "loading.share", "compute.seconds", "compute.share",
    "breakdown.loading", "breakdown.transfer", "breakdown.forward", "breakdown.backward",
    "breakdown.optimizer", "breakdown.other",
    "pause.seconds", "pause.count", "loss.first", "loss.last", "loss.min",
)  # fmt: skip
#: Every table and its columns. Times are seconds since the start of the run.
TABLES = {
    "run": ("rank", "key", "value"),
    "tasks": ("rank", "task", *(path.replace(".", "_") for path in TASK)),
    "events": ("rank", "event", "t", "n", "task", "json"),
    "metrics": ("rank", "event", "t", "n", "task", "key", "value"),
    "steps": ("rank", "task", "step", "t", "seconds", "loading", "compute", "items"),
    "slices": ("rank", "id", "parent", "process", "thread", "channel", "label", "depth", "t",
               "seconds", "args"),
    "instants": ("rank", "process", "thread", "channel", "label", "t", "args"),
    "counters": ("rank", "name", "unit", "t", "value"),
}  # fmt: skip
#: Those that are read from the trace.
TRACED = frozenset({"steps", "slices", "instants", "counters"})
#: Longer lists are one value, as JSON.
_SHORT = 16
_STEPS = re.compile(r"(.+) steps(?: \d+)?")

Value = int | float | str | None
Rows = Iterator[tuple[Value, ...]]


def open_database(run: Run | str | Path, to: str | Path = ":memory:") -> sqlite3.Connection:
    """A database with a run's tables; of a job, with the rows of all its ranks.

    Args:
        run: The run, or its directory.
        to: A new file for it; in memory, when not given.

    Raises:
        VoirError: There is no run, or its ``run.json`` is damaged.
        sqlite3.Error: The file cannot be written.
    """
    found = run if isinstance(run, Run) else read_run(run)
    database = empty_database(to)
    fill(database, found, TABLES)
    return database


def empty_database(to: str | Path = ":memory:") -> sqlite3.Connection:
    """A database with all tables and no rows."""
    database = sqlite3.connect(to)
    for name, columns in TABLES.items():
        database.execute(f"create table {name} ({', '.join(columns)})")
    return database


def fill(database: sqlite3.Connection, run: Run, tables: Collection[str]) -> None:
    """Put a run's rows into those of the tables that are wanted, and perhaps into others."""
    for one in run.ranks or (run,):
        for name, rows in _tables(one, tables):
            marks = ", ".join("?" for _ in TABLES[name])
            ranked = ((one.rank, *row) for row in rows)
            database.executemany(f"insert into {name} values ({marks})", ranked)
    database.commit()


def _tables(run: Run, wanted: Collection[str]) -> Iterator[tuple[str, Rows]]:
    """The rows of each table that is wanted, without the rank."""
    yield "run", _flat("", run.facts)
    yield "tasks", _tasks(run.facts)
    if "events" in wanted:
        yield "events", _events(run)
    if "metrics" in wanted:
        yield "metrics", _metrics(run)
    if TRACED.isdisjoint(wanted) or (file := trace_of(run)) is None:
        return
    trace = open_trace(file)
    start = _start(run, trace)
    yield "slices", _slices(trace, start)
    yield "steps", _steps(trace, start)
    yield "instants", _instants(trace, start)
    yield "counters", _counters(trace, start)


def trace_of(run: Run) -> Path | None:
    """The run's trace, wherever it was written; None when there is none."""
    for path in (run.path / NAME, str(part(run.facts, "trace").get("path") or "")):
        with suppress(VoirError):
            return trace_file(path) if str(path) else None
    return None


# What run.json and metrics.jsonl hold


def _flat(name: str, value: Any) -> Rows:
    """The values in ``value``, each with its dotted path."""
    pairs: Iterable[tuple[Any, Any]] | None = None
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list) and (len(value) <= _SHORT or isinstance(value[0], Mapping)):
        pairs = enumerate(value)
    if pairs is None:
        yield name, _value(value)
        return
    for key, inner in pairs:
        yield from _flat(f"{name}.{key}" if name else str(key), inner)


def _value(value: Any) -> Value:
    """``value`` as SQL has it: NaN is NULL, what is no single value is JSON."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return float(value) if abs(value) < 1 << 1023 else str(value)
    number = as_number(value)
    if number is not None:
        return None if number != number else value if isinstance(value, int) else number
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _tasks(facts: Mapping[str, Any]) -> Rows:
    for name, task in part(facts, "tasks").items():
        yield name, *(_value(at(task, path)) for path in TASK)


def _events(run: Run) -> Rows:
    for number, event in enumerate(run.metrics):
        yield number, *_told(event), json.dumps(event)


def _metrics(run: Run) -> Rows:
    for number, event in enumerate(run.metrics):
        first = number, *_told(event)
        for key, value in event.items():
            if key not in ("t", "n", "task"):
                for path, inner in _flat(key, value):
                    yield *first, path, inner


def _told(event: Mapping[str, Any]) -> tuple[Value, ...]:
    return tuple(_value(event.get(key)) for key in ("t", "n", "task"))


# What the trace holds


def _start(run: Run, trace: Trace) -> int:
    """When the run began, in nanoseconds since the epoch; else when its trace does."""
    from datetime import UTC, datetime

    try:
        began = datetime.fromisoformat(str(run.facts.get("started")).rstrip("Z"))
    except ValueError:
        starts = [one.start for one in trace.slices()]
        return min(starts, default=0)
    return round(began.replace(tzinfo=UTC).timestamp() * 1e6) * 1000


def _rows(trace: Trace) -> Iterator[tuple[Process, Thread]]:
    return ((process, thread) for process in trace.processes for thread in process.threads)


def _slices(trace: Trace, start: int) -> Rows:
    number = 0
    for process, thread in _rows(trace):
        parents: list[int] = []
        for depth, one in thread.walk():
            number += 1
            del parents[depth:]
            parent = parents[-1] if parents else None
            parents.append(number)
            place = process.name, thread.name, one.channel, one.label
            times = _since(one.start, start), _seconds(one)
            yield number, parent, *place, depth, *times, _arguments(one)


def _steps(trace: Trace, start: int) -> Rows:
    for _, thread in _rows(trace):
        task = _STEPS.fullmatch(thread.name)
        for one in thread.slices if task else ():
            if one.label == "step" and task:
                within = {child.label: _seconds(child) for child in one.children}
                times = _since(one.start, start), _seconds(one)
                parts = within.get("loading"), within.get("compute")
                number, items = (_value(one.args.get(key)) for key in ("step", "items"))
                yield task[1], number, *times, *parts, items


def _instants(trace: Trace, start: int) -> Rows:
    for process, thread in _rows(trace):
        for one in thread.instants:
            place = process.name, thread.name, one.channel, one.label
            yield *place, _since(one.start, start), _arguments(one)


def _counters(trace: Trace, start: int) -> Rows:
    for process in trace.processes:
        for counter in process.counters.values():
            for time, value in counter.samples:
                yield counter.name, counter.unit, _since(time, start), _value(value)


def _since(time: int, start: int) -> float:
    return (time - start) / 1e9


def _seconds(one: Slice) -> float | None:
    return None if one.duration is None else one.duration / 1e9


def _arguments(one: Slice) -> str | None:
    return json.dumps(one.args, default=str) if one.args else None
