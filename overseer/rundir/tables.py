"""Loads a run's record and trace into a SQL database, in memory or in a file."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import VoirError
from ..files import read_json
from ..model.catalogue import EVENT_METRICS, METRIC_GROUPS, RUN_METRICS, TASK_METRICS
from ..model.facts import part
from ..recorder.sites import PARTS
from ..trace.reading import ProcessTracks, Slice, Thread, Trace, trace_file
from ..trace.timeline import open_trace
from .job import MARKER
from .reading import Run, read_run
from .steps import COMPILED, DEVICE_CLOCK, LOADED, steps_of

#: Tables and their columns; those of ``tasks`` are the tasks' keys. Times are seconds since the
#: run's start. ``steps`` come from ``steps.npy``, otherwise from the trace.
TABLES = {
    "run": "key, value",
    "tasks": "task",
    "ranks": "host, place, pid, local_rank, world_size, attempt, epoch",
    "events": "event, t, n, task, step, json, epoch",
    "metrics": "event, t, n, task, step, key, value",
    "steps": "task, step, t, seconds, loading, compute, items, loss, forward, backward, optimizer, "
    "communication, other, pause, thread, compiled, clock, epoch",
    "slices": "id, parent, process, thread, channel, label, depth, t, seconds, args, own",
    "instants": "process, thread, channel, label, t, args",
    "counters": "name, unit, t, value",
}
#: Facts about metrics, the same for all runs: their keys in ``tasks``, ``run`` and ``metrics``.
CATALOGUE = "of, key, name, unit, better, about"
#: Tables read from the trace, empty without one.
TRACED = ("slices", "instants", "counters")
#: Longer lists become one value, as JSON; in ``tasks``, with a column per value, all do.
_SHORT = 16
_STEPS = re.compile(r"(.+) steps(?: \d+)?")

Rows = Iterable[tuple[Any, ...]]


def open_database(
    run: Run | str | Path,
    to: str | Path = ":memory:",
    query: str | None = None,
    report: Callable[[VoirError], object] | None = None,
) -> sqlite3.Connection:
    """Make a database with a run's tables; for a job, with the rows of all ranks.

    Args:
        run: The run, or its directory.
        to: A new file; by default in memory.
        query: The query: tables that it does not name stay empty.
        report: Receives the error if ``steps.npy`` is damaged, and the table ``steps`` is the
            trace's, or empty; None: it is raised.

    Raises:
        VoirError: There is no run, or its ``run.json`` or ``steps.npy`` is damaged.
        sqlite3.Error: The file cannot be written.
    """
    found = run if isinstance(run, Run) else read_run(run)
    ranks = found.ranks or (found,)
    flat = [
        (one.rank, name, dict(_flat("", task, 0))) for one in ranks for name, task in _tasks(one)
    ]
    named = {"rank": "", "task": ""}  # Columns are case-insensitive.
    for key in (key for _, _, values in flat for key in values):
        named.setdefault(re.sub(r"\W", "_", key).lower(), key)
    columns = [*named.values()][2:]
    database = sqlite3.connect(to)
    traces = {one.rank: file for one in ranks if (file := trace_of(one))}
    for name, those in TABLES.items():
        more = "".join(f', "{key}"' for key in [*named][2:]) if name == "tasks" else ""
        if traces or name not in TRACED:
            database.execute(f"create table {name} (rank, {those}{more})")
    database.execute(f"create table catalogue ({CATALOGUE})")
    _put(database, "catalogue", _catalogue())
    _put(database, "tasks", [(r, n, *(v.get(key) for key in columns)) for r, n, v in flat])
    for one in ranks:
        tables: dict[str, Rows] = {"run": _flat("", one.facts), "ranks": [_process(one)]}
        if _named(query, "events", "metrics"):
            tables |= {"events": _events(one), "metrics": _metrics(one)}
        traced: tuple[str, ...] = TRACED
        steps = None
        try:
            steps = steps_of(one.path, one.facts) if _named(query, "steps") else None
        except VoirError as error:
            if report is None:
                raise
            report(error)
        if steps is None:
            traced = ("steps", *TRACED)
        else:
            tables["steps"] = _recorded(one, steps)
        if one.rank in traces and _named(query, *traced):
            tables = _traced(one, open_trace(traces[one.rank])) | tables
        for name, rows in tables.items():
            _put(database, name, ((one.rank, *row) for row in rows))
    database.commit()
    return database


def trace_of(run: Run) -> Path | None:
    """The run's trace, wherever it was written; None without one."""
    with suppress(VoirError):
        return trace_file(run.path)
    return None


def _named(query: str | None, *tables: str) -> bool:
    return query is None or any(name in query.lower() for name in tables)


def _put(database: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    (columns,) = database.execute(f"select count(*) from pragma_table_info('{table}')").fetchone()
    database.executemany(f"insert into {table} values ({', '.join('?' * columns)})", rows)


def _catalogue() -> Iterator[tuple[Any, ...]]:
    """Every metric: table and key of its values."""
    monitored = (
        (f"{s.key}.{name}", m) for s in METRIC_GROUPS.values() for name, m in s.metrics.items()
    )
    for table, metrics in (
        ("tasks", TASK_METRICS.items()),
        ("run", RUN_METRICS.items()),
        ("metrics", EVENT_METRICS.items()),
        ("metrics", monitored),
    ):
        for key, one in metrics:
            column = re.sub(r"\W", "_", key) if table == "tasks" else key
            yield table, column, one.name, one.unit, one.better or None, one.about


# From run.json and metrics.jsonl


def _tasks(run: Run) -> list[tuple[str, Any]]:
    return [(name, task) for name, task in part(run.facts, "tasks").items() if name]


def _flat(name: str, value: Any, short: int = _SHORT) -> Iterator[tuple[str, Any]]:
    """The nested values with their dotted paths."""
    pairs: Iterable[tuple[Any, Any]] | None = None
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list) and (len(value) <= short or isinstance(value[0], Mapping)):
        pairs = enumerate(value)
    if pairs is None:
        yield name, _value(value)
        return
    for key, inner in pairs:
        yield from _flat(f"{name}.{key}" if name else str(key), inner, short)


def _value(value: Any) -> Any:
    """Convert for SQL: NaN to NULL, infinities to numbers, large integers to floats."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        try:
            return value if -(1 << 63) <= value < 1 << 63 else float(value)
        except OverflowError:
            return str(value)
    if isinstance(value, str):
        return {"NaN": None, "Infinity": 1e999, "-Infinity": -1e999}.get(value, value)
    return json.dumps(value, default=str)


def _process(run: Run) -> tuple[Any, ...]:
    host = part(run.facts, "provenance").get("hostname")
    known = ("place", "pid", "local_rank", "world_size", "attempt")
    return _value(host), *(_value(run.facts.get(key)) for key in known), _epoch(run)


def _epoch(run: Run) -> float | None:
    """The start of a process in seconds since the epoch, by a clock that its machine shares."""
    start = part(run.facts, "steps").get("start")
    with suppress(OSError, ValueError, TypeError, LookupError):
        anchor = read_json(run.path.parent / MARKER)["anchor"]
        if anchor["place"] == run.facts.get("place") and isinstance(start, int):
            return float(anchor["epoch"] + start - anchor["monotonic"]) / 1e9
    return run.began


def _since(epoch: float | None, t: Any) -> float | None:
    return None if epoch is None or not isinstance(t, (int, float)) else round(epoch + t, 6)


def _events(run: Run) -> Rows:
    epoch = _epoch(run)
    for number, event in enumerate(run.metrics):
        t, *rest = _when(run, event)
        yield number, t, *rest, json.dumps(event), _since(epoch, t)


def _metrics(run: Run) -> Rows:
    for number, event in enumerate(run.metrics):
        for key, value in event.items():
            if key not in ("t", "n", "task", "step", "$logged"):
                for path, inner in _flat(key, value):
                    yield number, *_when(run, event), path, inner


def _when(run: Run, event: Mapping[str, Any]) -> tuple[Any, ...]:
    at = run.seconds_of(event)
    rounded = None if at is None else round(at, 6)
    return _value(rounded), *(_value(event.get(key)) for key in ("n", "task", "step"))


# From steps.npy


def _recorded(run: Run, steps: Iterable[Mapping[str, Any]]) -> Rows:
    start, epoch = part(run.facts, "steps").get("start"), _epoch(run)
    for row in steps:
        flags, known = row["flags"], row["flags"] & LOADED
        parts = {name: row[name] / 1e9 for name in PARTS}
        seconds = sum(parts.values())
        t = (row["start"] - start) / 1e9 if isinstance(start, int) else None
        yield (
            row["task"], row["step"], t, seconds,
            parts["loading"] if known else None, seconds - parts["loading"] if known else None,
            _value(row["items"]), _value(row["loss"]), *list(parts.values())[1:],
            row["pause"] / 1e9, row["thread"], bool(flags & COMPILED),
            "device" if flags & DEVICE_CLOCK else "host", _since(epoch, t),
        )  # fmt: skip


# From the trace


def _traced(run: Run, trace: Trace) -> dict[str, Rows]:
    start = _start(run, trace)
    of = [(process, thread) for process in trace.processes for thread in process.threads]
    instants = [(*_at(p, t, one, start), _args(one)) for p, t in of for one in t.instants]
    counters = [
        (counter.name, counter.unit, (time - start) / 1e9, _value(value))
        for process in trace.processes
        for counter in process.counters.values()
        for time, value in counter.samples
    ]
    steps = [row for _, thread in of for row in _steps(thread, start)]
    return {
        "slices": _slices(of, start),
        "steps": steps,
        "instants": instants,
        "counters": counters,
    }


def _start(run: Run, trace: Trace) -> int:
    """The run's start in ns since the epoch, otherwise its trace's."""
    try:
        began = datetime.fromisoformat(str(run.facts.get("started")).rstrip("Z"))
    except ValueError:
        return min((one.start for one in trace.slices()), default=0)
    return round(began.replace(tzinfo=UTC).timestamp() * 1e6) * 1000


def _at(process: ProcessTracks, thread: Thread, one: Slice, start: int) -> tuple[Any, ...]:
    return process.name, thread.name, one.channel, one.label, (one.start - start) / 1e9


def _slices(of: list[tuple[ProcessTracks, Thread]], start: int) -> Rows:
    number = 0
    for process, thread in of:
        parents: list[int] = []
        for depth, one in thread.walk():
            number += 1
            parent = parents[depth - 1] if depth else None
            parents[depth:] = [number]
            *place, t = _at(process, thread, one, start)
            yield number, parent, *place, depth, t, _seconds(one), _args(one), _own(one)


def _steps(thread: Thread, start: int) -> Rows:
    task = _STEPS.fullmatch(thread.name)
    for one in thread.slices if task else ():
        if one.label == "step" and task:
            parts = {child.label: _seconds(child) for child in one.children}
            number, items = (_value(one.args.get(key)) for key in ("step", "items"))
            # A part without time has no span; with unknown loading both are missing.
            absent = 0.0 if parts.keys() & {"loading", "compute"} else None
            split = [parts.get(key, absent) for key in ("loading", "compute")]
            rest = [None] * 10  # Only steps.npy has the rest.
            t = (one.start - start) / 1e9
            yield task[1], number, t, _seconds(one), *split, items, *rest, one.start / 1e9


def _seconds(one: Slice) -> float | None:
    return None if one.duration is None else one.duration / 1e9


def _own(one: Slice) -> float | None:
    """The span's time without its children's."""
    inside = sum(child.duration or 0 for child in one.children)
    return None if one.duration is None else max(0, one.duration - inside) / 1e9


def _args(one: Slice) -> str | None:
    return json.dumps(one.args, default=str) if one.args else None
