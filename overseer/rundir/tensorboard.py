"""Writes a run's numbers as curves to a TensorBoard event file, without TensorBoard.

The format is TensorFlow's: a record is the length of its data (8 bytes, little-endian), a checksum
of that, the data, a checksum of that; the data is an ``Event`` (tensorflow/core/util/event.proto).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from ctypes import c_float
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import VoirError
from ..files import whole
from ..model.catalogue import CONTEXT_KEYS, CURVES, METRIC_GROUPS
from ..model.facts import part
from ..recorder.sites import PARTS
from ..trace import wire
from .reading import Run, as_number
from .steps import Steps, steps_of

#: Limits in a monitor's figures: depth, and entries per dictionary.
_DEPTH, _WIDTH = 4, 16
#: Points of each curve of steps; TensorBoard shows 1,000 by default.
MAX_POINTS = 10_000
#: Keys of the events that voir makes of steps: their values are in ``steps.npy`` too.
ROW_KEYS = ("loss", "batch_size")


class Scalar(NamedTuple):
    """A point to plot.

    Attributes:
        tag: The curve's name; the text before a slash is its group.
        step: Its place on the axis.
        time: Seconds since the epoch.
        value: The value, rounded to single precision.
    """

    tag: str
    step: int
    time: float
    value: float


def export_scalars(run: Run, directory: Path) -> Path:
    """Write a run's curves for ``tensorboard --logdir``.

    Args:
        run: The run.
        directory: The event file's; created if missing.

    Returns:
        The event file.

    Raises:
        OSError: The file cannot be written; no part of it remains.
    """
    began, host = _began(run), os.uname().nodename
    name = f"events.out.tfevents.{began:.0f}.{host}.{run.facts.get('pid', 0)}.voir"
    directory.mkdir(parents=True, exist_ok=True)
    with whole(directory / name) as file:
        file.writelines(event_file(began, scalars(run)))
    return directory / name


def _began(run: Run) -> float:
    """The run's start in seconds since the epoch; if unknown, when it was written."""
    return run.path.stat().st_mtime if run.began is None else run.began


def scalars(run: Run) -> Iterator[Scalar]:
    """All points to plot, in the order of their times.

    The curves of steps come from ``steps.npy``, at the steps' numbers. Those of events come from
    ``metrics.jsonl``, at the count of such events. A loss or size that the script gives is an
    event's, and hides the steps' own.
    """
    steps = _steps(run)
    tasks = part(run.facts, "tasks") if steps else ()
    own = {(task, key) for task in tasks for key in ROW_KEYS}
    given = {
        tag
        for event in run.metrics
        if not _logged(event) and not _found(event, own)
        for tag, _ in _curves(event)
    }
    rows = _of_rows(run, steps, given) if steps else ()
    return merge(_of_events(run, own, given), rows, key=lambda point: point.time)


def _of_events(run: Run, own: set[tuple[str, str]], given: set[str]) -> Iterator[Scalar]:
    began, seconds = _began(run), 0.0
    counts: dict[str, int] = {}
    for event in run.metrics:
        seconds = run.seconds_of(event) or seconds
        if _found(event, own):
            continue
        for tag, value in _curves(event):
            # An event that was given and logged is plotted once.
            if not _logged(event) or tag not in given:
                counts[tag] = int(as_number(event.get("n")) or counts.get(tag, 0) + 1)
                yield Scalar(tag, counts[tag], began + seconds, value)


def _of_rows(run: Run, steps: Steps, given: set[str]) -> Iterator[Scalar]:
    """Curves of steps, thinned to ``MAX_POINTS``; unknown values are left out."""
    began = _began(run)
    start = as_number(part(run.facts, "steps").get("start")) or 0.0
    every = len(steps) // MAX_POINTS + 1
    for row in islice(steps, 0, None, every):
        seconds = sum(row[name] for name in PARTS) / 1e9
        values = {"loss": row["loss"], "batch_size": row["items"], "step_seconds": seconds}
        if seconds > 0:
            values["items_per_second"] = row["items"] / seconds
        for key, value in values.items():
            tag = f"{row['task']}/{key}"
            if value == value and tag not in given:
                yield Scalar(tag, row["step"], began + (row["end"] - start) / 1e9, value)


def _steps(run: Run) -> Steps | None:
    """The run's steps; None without a readable file."""
    try:
        return steps_of(run.path, run.facts)
    except VoirError:
        return None


def _found(event: Mapping[str, Any], own: set[tuple[str, str]]) -> bool:
    """Whether voir made this event of a step that is in ``steps.npy``."""
    keys = event.keys() - {"t", "n", "task", "step"}
    return "step" in event and {(event.get("task", "train"), key) for key in keys} <= own


def _logged(event: Mapping[str, Any]) -> bool:
    """Whether an event was logged, not given; logged events of schema 1 have no time."""
    return "$logged" in event or "t" not in event


def _curves(event: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    task = event.get("task", "train")
    for key, value in event.items():
        if key in METRIC_GROUPS:
            yield from leaves(f"machine/{METRIC_GROUPS[key].name}", value)
        elif key not in CONTEXT_KEYS and not key.startswith("$"):
            number = as_number(value)
            if number is not None:
                yield f"{task}/{key}", number


def leaves(tag: str, figures: Any, depth: int = _DEPTH) -> Iterator[tuple[str, float]]:
    """The numbers of a monitor's figures that are plotted; the first of ``[used, total]``."""
    items = list(figures.items())[:_WIDTH] if isinstance(figures, Mapping) else ()
    for key, value in items:
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        number = as_number(first) if key in CURVES else None
        if number is not None:
            yield f"{tag}.{key}", number
        elif depth:
            yield from leaves(f"{tag}.{key}", value, depth - 1)


def event_file(began: float, points: Iterable[Scalar]) -> Iterator[bytes]:
    """Yield the bytes of an event file.

    Args:
        began: Seconds since the epoch.
        points: In order of time.
    """
    yield _record(wire.double(1, began) + wire.text(3, "brain.Event:2"))
    for one in points:
        value = wire.text(1, one.tag) + b"\x15" + _single(c_float(one.value).value)
        event = wire.double(1, one.time) + wire.number(2, one.step)
        yield _record(event + wire.message(5, wire.message(1, value)))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


_single = struct.Struct("<f").pack


# CRC-32C (Castagnoli), masked as TensorFlow does.


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The CRC-32C of ``data`` (RFC 3720, B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
