"""Losses, rates and the machine's figures as counters; progress as instants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overseer import Overseer
from overseer.trace.emit import channel

Event = dict[str, Any]
#: What monitors give, and what it is shown under.
MONITORS = {
    "cpudata": "cpu",
    "gpudata": "gpu",
    "iodata": "disk",
    "netdata": "network",
    "process": "process",
}
#: The monitors' figures that are shown, and their units.
UNITS = {
    "load": "%",
    "memory": "B",
    "temperature": "C",
    "power": "W",
    "read_bytes": "B",
    "write_bytes": "B",
    "bytes_sent": "B",
    "bytes_recv": "B",
}
#: What GPUs give in units of their own: the unit, and what makes it of the value.
GPU = {"load": ("%", 100.0), "memory": ("MiB", 1.0)}
#: Progress of so many steps is marked turn by turn; longer ones are loops of steps.
TURNS = 1000
#: How deep a monitor's figures are looked into, and how many of one list are shown.
DEPTH, WIDTH = 4, 16


class Figures:
    """Listens for figures, and records them."""

    def __init__(self, ov: Overseer) -> None:
        self._metrics = channel("metrics")
        self._machine = channel("machine", always=True)
        self._marks = channel("progress", always=True)
        listened = {
            "loss": self._loss,
            "rate": self._rate,
            "progress": self._progress,
            "accuracy": self._accuracy,
            **dict.fromkeys(MONITORS, self._sampled),
        }
        self._listening = [ov.listen(listener, key) for key, listener in listened.items()]

    def close(self) -> None:
        """Listen no longer."""
        for listening in self._listening:
            listening.dispose()

    def _loss(self, event: Event) -> None:
        self._metrics.counter(_of_task("loss", event)).add(event["loss"])

    def _accuracy(self, event: Event) -> None:
        self._metrics.counter(_of_task("accuracy", event)).add(event["accuracy"])

    def _rate(self, event: Event) -> None:
        unit = event.get("units", "items/s")
        self._metrics.counter(_of_task("rate", event), str(unit)).add(event["rate"])

    def _progress(self, event: Event) -> None:
        progress = event["progress"]
        if isinstance(progress, tuple | list) and len(progress) == 2 and progress[0]:
            done, total = progress
            if isinstance(total, int) and total <= TURNS:
                task = event.get("task", "train")
                self._marks.instant(f"{task} {done} of {total}")

    def _sampled(self, event: Event) -> None:
        for key, name in MONITORS.items():
            for path, value in _leaves(name, event.get(key)):
                last = path.rpartition(".")[2]
                unit, factor = UNITS.get(last), 1.0
                if key == "gpudata" and last in GPU:
                    unit, factor = GPU[last]
                if unit is not None:
                    self._machine.counter(path, unit).add(value * factor)


def _of_task(name: str, event: Event) -> str:
    task = event.get("task", "train")
    return name if task == "train" else f"{name} ({task})"


def _leaves(path: str, value: Any, depth: int = DEPTH) -> Iterator[tuple[str, float]]:
    """The numbers in a monitor's figures: of ``[used, total]`` the first."""
    if isinstance(value, dict) and depth:
        for key, inner in list(value.items())[:WIDTH]:
            yield from _leaves(f"{path}.{key}", inner, depth - 1)
    elif isinstance(value, list | tuple) and value and depth:
        yield from _leaves(path, value[0], depth - 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
