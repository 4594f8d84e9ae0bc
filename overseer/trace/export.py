"""Exports a trace as Chrome JSON, for TensorBoard, HTA and chrome://tracing.

A file is written under another name and renamed when it is complete.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..files import whole
from .reading import ProcessTracks, Slice, Thread, Trace, extent

#: Above every process id.
BEYOND = 1 << 22
#: The categories that PyTorch's viewers expect, by channel.
CATEGORIES = {"operators": "cpu_op"}
#: Part of the names of rows that are streams of a device.
_STREAM = " stream "
#: Rows of the script's own work, with the span name that the viewers expect; empty: unchanged.
_WORK = {
    "data loader": "enumerate(DataLoader)#_BaseDataLoaderIter.__next__",
    "passes": "",
    "optimizer": "",
}


def export_json(traces: Iterable[Trace], start: int, path: Path) -> None:
    """Write ``path``: one complete JSON object.

    Args:
        traces: Those of a job's ranks, on one clock; each is read when it is written.
        start: The moment at which times begin, in ns since the epoch.
        path: The file.

    Raises:
        OSError: The file cannot be written; nothing is left of it.
    """
    taken: set[int] = set()
    events = (event for trace in traces for event in _events(trace, start, taken))
    _write(path, _head(start, {}), events)


def export_tensorboard(
    trace: Trace, directory: Path, rank: int = 0, world_size: int | None = None
) -> Path:
    """Write a file that TensorBoard's profile plugin and HTA find in ``directory``.

    Args:
        trace: The trace of one process.
        directory: The target; all ranks of a job share one.
        rank: The rank of the process.
        world_size: Count of ranks; ``rank + 1`` if not given.

    Raises:
        OSError: The file cannot be written.
    """
    start, end = extent(trace)
    pid = next((process.pid for process in trace.processes if process.pid), 0)
    path = directory / f"{socket.gethostname()}_{pid}.{end // 1_000_000}.pt.trace.json"
    directory.mkdir(parents=True, exist_ok=True)
    head = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {"rank": rank, "world_size": world_size or rank + 1, "backend": "none"},
    }
    _write(path, _head(start, head), _profiled(trace, start))
    return path


def _head(start: int, more: dict[str, Any]) -> dict[str, Any]:
    return {"displayTimeUnit": "ms", "baseTimeNanoseconds": start, **more}


def _write(path: Path, head: dict[str, Any], events: Iterator[dict[str, Any]]) -> None:
    with whole(path) as file:
        file.write(json.dumps(head, allow_nan=False)[:-1].encode() + b', "traceEvents": [')
        for number, event in enumerate(events):
            text = (",\n" if number else "\n") + json.dumps(event, allow_nan=False)
            file.write(text.encode())
        file.write(b"\n]}\n")


def _events(trace: Trace, start: int, taken: set[int]) -> Iterator[dict[str, Any]]:
    for number, process in enumerate(trace.processes):
        pid = process.pid or number
        while pid in taken:  # The same id on another machine.
            pid += BEYOND
        taken.add(pid)
        yield _name("process_name", pid, 0, process.name)
        for tid, thread in _rows(process):
            yield _name("thread_name", pid, tid, thread.name)
            for _, one in thread.walk():
                yield _span(one, pid, tid, start)
            for one in thread.instants:
                yield {**_event("i", one.label, pid, tid, one.start - start), "s": "t",
                       "cat": one.channel, "args": finite(one.args)}  # fmt: skip
        for counter in process.counters.values():
            for time, value in counter.samples:
                if math.isfinite(value):
                    named = {counter.unit or "value": value}
                    yield {**_event("C", counter.name, pid, 0, time - start), "args": named}


def _rows(process: ProcessTracks) -> Iterator[tuple[int, Thread]]:
    """Yield rows with thread ids; rows that are not threads have ids above all of those."""
    for number, thread in enumerate(process.threads):
        yield thread.tid if thread.tid is not None else (1 << 31) + number, thread


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _event(kind: str, name: str, pid: int, tid: int, ns: int) -> dict[str, Any]:
    return {"ph": kind, "name": name, "pid": pid, "tid": tid, "ts": ns / 1000}


def _span(one: Slice, pid: int, tid: int, start: int) -> dict[str, Any]:
    event = _event("X" if one.duration is not None else "B", one.label, pid, tid, one.start - start)
    event["cat"] = one.channel
    if one.duration is not None:
        event["dur"] = one.duration / 1000
    if one.args:
        event["args"] = finite(one.args)
    return event


def finite(value: Any) -> Any:
    """``value`` with NaN and infinities as text, for strict JSON."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _profiled(trace: Trace, start: int) -> Iterator[dict[str, Any]]:
    """Yield events with the names and categories of PyTorch's profiler.

    Its viewers look for steps, loading and operators on one thread.
    """
    names = {tid: thread.name for p in trace.processes for tid, thread in _rows(p)}
    main = next((t.tid for t in trace.threads if t.tid is not None), 0)
    for event in _events(trace, start, set()):
        row = names.get(event["tid"], "")
        if event["ph"] != "X":
            yield event
            continue
        event["dur"] = max(event["dur"] - 0.001, 0)  # Else rounding makes neighbours overlap.
        if _STREAM in row:
            yield _kernel(event, row)
        elif row == "train steps" and "step" in event.get("args", {}):
            name = f"ProfilerStep#{event['args']['step']}"
            yield {**event, "name": name, "cat": "user_annotation", "tid": main}
        elif row in _WORK:
            yield {**event, "name": _WORK[row] or event["name"], "cat": "cpu_op", "tid": main}
        else:
            yield {**event, "cat": CATEGORIES.get(event["cat"], "user_annotation")}


def _kernel(event: dict[str, Any], row: str) -> dict[str, Any]:
    device, _, stream = row.partition(_STREAM)
    number = device.rpartition(":")[2]
    arguments = {"device": int(number) if number.isdigit() else 0, "stream": stream}
    return {**event, "cat": "kernel", "args": {**event.get("args", {}), **arguments}}
