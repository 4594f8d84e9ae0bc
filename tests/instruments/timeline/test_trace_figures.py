"""The machine's figures become counters in units that people read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instruments.timeline.figures import Figures
from overseer.clock import Clock
from overseer.engine.bus import Bus
from overseer.trace import open_trace
from overseer.trace.process import this_process
from overseer.trace.recorder import recorder
from overseer.trace.writer import Writer


def test_monitors_losses_and_progress(tmp_path: Path) -> None:
    stream = Bus(pytest.fail)
    ov: Any = SimpleNamespace(listen=stream.listen)
    path = tmp_path / "trace.pftrace"
    writer = Writer(str(path), this_process("x", Clock()), recorder, 1 << 20, pytest.fail)
    recorder.start()
    figures = Figures(ov)
    gpu = {"memory": [512.0, 81920.0], "load": 0.25, "temperature": 40, "name": "H100"}
    events: list[dict[str, Any]] = [
        {"task": "main", "cpudata": {"memory": [5, 10], "load": 50.0}},
        {"task": "main", "gpudata": {"0": gpu, "1": {**gpu, "load": None}}},
        {"task": "main", "process": {"pid": 7, "memory": 3, "load": 1.5}},
        {"loss": 0.5},
        {"task": "eval", "loss": 0.75},
        {"task": "train", "rate": 100.0, "units": "items/s"},
        {"task": "train", "progress": (0, 3)},
        {"task": "train", "progress": (1, 3)},
        {"task": "train", "progress": (1, 100_000)},
        {"progress": None},
    ]
    for event in events:
        stream.push(event)
    figures.close()
    stream.push({"loss": 9.0})
    writer.close()
    recorder.stop()
    recorder.channels.clear()
    read = open_trace(path)
    assert {name: (c.unit, c.values) for name, c in read.counters.items()} == {
        "cpu.memory": ("B", [5.0]),
        "cpu.load": ("%", [50.0]),
        "gpu.0.memory": ("MiB", [512.0]),
        "gpu.0.load": ("%", [25.0]),
        "gpu.0.temperature": ("C", [40.0]),
        "gpu.1.memory": ("MiB", [512.0]),
        "gpu.1.temperature": ("C", [40.0]),
        "process.memory": ("B", [3.0]),
        "process.load": ("%", [1.5]),
        "loss": ("", [0.5]),
        "loss (eval)": ("", [0.75]),
        "rate": ("items/s", [100.0]),
    }
    assert [o.label for o in read.instants() if o.channel == "progress"] == ["train 1 of 3"]
