"""A run that has no end yet: what its events come to so far, and whether its process lives."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from statistics import fmean, quantiles
from typing import Any, BinaryIO

from .numbers import as_number
from .reading import Run

Facts = dict[str, Any]


def facts_so_far(run: Run) -> Facts:
    """``run.json`` with what its events tell of tasks, losses, progress and the machine.

    Rates are those of the windows that were given, a second each unless told; what only the end of
    a run knows is absent.
    """
    found = _SoFar()
    for event in run.metrics:
        found.add(event)
    return {"seconds": found.seconds, **found.facts(), **run.facts, "directory": str(run.path)}


class _SoFar:
    """Reads events, in order."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.steps: dict[str, int] = {}
        self.losses: dict[str, list[float]] = {}
        self.windows: dict[str, list[Mapping[str, Any]]] = {}
        self.progress: dict[str, Facts] = {}
        self.loads: list[float] = []
        self.memory: list[list[float]] = []

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        self.seconds = as_number(event.get("t")) or self.seconds
        task = str(event.get("task", "train"))
        if event.get("step") is not None:
            self.steps[task] = int(as_number(event.get("n")) or self.steps.get(task, 0) + 1)
        if "t" in event and (loss := as_number(event.get("loss"))) is not None:
            self.losses.setdefault(task, []).append(loss)
        if as_number(event.get("rate")) is not None:
            self.windows.setdefault(task, []).append(event)
        if isinstance(event.get("progress"), list) and len(event["progress"]) == 2:
            done, total = event["progress"]
            self.progress[task] = {"task": task, "done": done, "total": total}
        self._sampled(event)

    def _sampled(self, event: Mapping[str, Any]) -> None:
        cpu, memory = event.get("cpudata"), event.get("memdata")
        if isinstance(cpu, Mapping) and (load := as_number(cpu.get("load"))) is not None:
            self.loads.append(load)
        if isinstance(memory, Mapping) and isinstance(memory.get("memory"), list):
            self.memory.append(memory["memory"])

    def facts(self) -> Facts:
        """The sections of ``run.json`` that there are by now."""
        names = dict.fromkeys([*self.steps, *self.windows, *self.losses])
        host = {"cpu": self._cpu(), "memory": self._used()}
        sections = {
            "tasks": {name: self._task(name) for name in names},
            "progress": [*self.progress.values()],
            "host": {key: value for key, value in host.items() if value},
        }
        return {key: value for key, value in sections.items() if value}

    def _task(self, name: str) -> Facts:
        windows, losses = self.windows.get(name, []), self.losses.get(name, [])
        task: Facts = {"steps": self.steps[name]} if name in self.steps else {}
        if windows:
            last = windows[-1]
            task["units"] = str(last.get("units", "items/s")).removesuffix("/s")
            rates = [rate for each in windows if (rate := as_number(each["rate"])) is not None]
            task["rate"] = {"now": rates[-1], **_quartiles(rates)}
            for key in ("loading", "compute"):
                if as_number(last.get(f"{key}_share")) is not None:
                    task[key] = {"share": last[f"{key}_share"]}
        if losses:
            finite = [loss for loss in losses if math.isfinite(loss)]
            task["loss"] = {
                "first": losses[0],
                "last": losses[-1],
                "min": min(finite, default=None),
            }
        return task

    def _cpu(self) -> Facts:
        return {"mean": fmean(self.loads), "max": max(self.loads)} if self.loads else {}

    def _used(self) -> Facts:
        used = [pair[0] for pair in self.memory if len(pair) == 2]
        return {"peak": max(used), "total": self.memory[-1][1]} if used else {}


def _quartiles(values: list[float]) -> Facts:
    if len(values) < 2:
        return {"median": values[0]}
    q1, median, q3 = quantiles(values, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3}


def goes_on(runs: Iterable[Run]) -> bool | None:
    """Whether any of the processes still runs; None when that can't be told from this machine."""
    states = [_alive(run.facts) for run in runs if "ended" not in run.facts]
    return True if True in states else None if None in states else False


def _alive(facts: Mapping[str, Any]) -> bool | None:
    """Whether a run's process lives: the pid may be another's by now, who began later."""
    provenance, pid = facts.get("provenance"), facts.get("pid")
    host = provenance.get("hostname") if isinstance(provenance, Mapping) else None
    if host != socket.gethostname() or not isinstance(pid, int):
        return None
    from psutil import NoSuchProcess, Process

    try:
        begun = Process(pid).create_time()
    except NoSuchProcess:
        return False
    except (OSError, ValueError):
        return None
    return begun <= _started(facts)


def _started(facts: Mapping[str, Any]) -> float:
    """When a run began, in seconds since the epoch; the far future when that is not known."""
    try:
        began = datetime.fromisoformat(str(facts.get("started")).rstrip("Z"))
    except ValueError:
        return math.inf
    return began.replace(tzinfo=UTC).timestamp() + 1


def ends_torn(run: Run) -> bool:
    """Whether the run's events end within a line: it is being written, or was cut off."""
    try:
        with run.metrics.path.open("rb") as file:
            return bool(file.seek(0, os.SEEK_END)) and _last_byte(file) != b"\n"
    except OSError:
        return False


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


def state_of_files(run: Run) -> tuple[tuple[int, int], ...]:
    """Something that changes when a run's files do."""
    names = ("run.json", "metrics.jsonl")
    files = [one.path / name for one in (run, *run.ranks) for name in names]
    return tuple(_state(os.fspath(file)) for file in files)


def _state(file: str) -> tuple[int, int]:
    try:
        stat = os.stat(file)
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
