"""A run's numbers as curves: what TensorBoard plots of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .eventfile import Scalar, event_file
from .numbers import as_number
from .reading import Run

#: What monitors give, and what their curves are called.
MACHINE = {
    "cpudata": "cpu",
    "memdata": "memory",
    "gpudata": "gpu",
    "iodata": "disk",
    "netdata": "network",
    "process": "process",
}
#: Of the monitors' figures, those that are worth a curve.
_SHOWN = frozenset({
    "load", "memory", "temperature", "power", "read_bytes", "write_bytes", "bytes_sent",
    "bytes_recv",
})  # fmt: skip
#: What counts, and is no curve.
_PLACES = frozenset({"t", "n", "time", "step", "batch", "batch_size"})
#: How deep a monitor's figures are looked into.
_DEPTH = 4


def export_scalars(run: Run, directory: Path) -> Path:
    """Write the numbers of a run's events where ``tensorboard --logdir`` finds them.

    Args:
        run: The run.
        directory: For its event file; made when it does not exist.

    Returns:
        The event file.

    Raises:
        OSError: It cannot be written; there is no half of it.
    """
    began = _began(run)
    name = f"events.out.tfevents.{began:.0f}.{socket.gethostname()}.{run.facts.get('pid', 0)}.voir"
    path = directory / name
    directory.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{name}.part")
    try:
        with beside.open("wb") as file:
            file.writelines(event_file(began, scalars(run)))
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return path


def _began(run: Run) -> float:
    """When the run began, in seconds since the epoch."""
    try:
        began = datetime.fromisoformat(str(run.facts.get("started")).rstrip("Z"))
    except ValueError:
        return run.path.stat().st_mtime
    return began.replace(tzinfo=UTC).timestamp()


def scalars(run: Run) -> Iterator[Scalar]:
    """Each number of the run's events, as a point of the curve that it belongs to.

    A curve's steps are how many such events there have been, those that were not recorded too.
    """
    began, seconds = _began(run), 0.0
    counts: dict[str, int] = {}
    timed = {tag for event in run.metrics if "t" in event for tag, _ in _curves(event)}
    for event in run.metrics:
        seconds = as_number(event.get("t")) or seconds  # What was logged has no time.
        for tag, value in _curves(event):
            if "t" in event or tag not in timed:  # What was given and logged would be there twice.
                counts[tag] = int(as_number(event.get("n")) or counts.get(tag, 0) + 1)
                yield Scalar(tag, counts[tag], began + seconds, value)


def _curves(event: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    task = event.get("task", "train")
    for key, value in event.items():
        if key in MACHINE:
            yield from _leaves(f"machine/{MACHINE[key]}", value)
        elif key not in _PLACES and not key.startswith("$"):
            number = as_number(value)
            if number is not None:
                yield f"{task}/{key}", number


def _leaves(tag: str, figures: Any, depth: int = _DEPTH) -> Iterator[tuple[str, float]]:
    """The numbers in a monitor's figures that are shown: of ``[used, total]`` the first."""
    for key, value in figures.items() if isinstance(figures, Mapping) else ():
        first = value[0] if isinstance(value, list) and value else value
        number = as_number(first) if key in _SHOWN else None
        if number is not None:
            yield f"{tag}.{key}", number
        elif depth:
            yield from _leaves(f"{tag}.{key}", value, depth - 1)
