"""TensorBoard's event files: what is in them, byte by byte and as TensorBoard reads it."""

from __future__ import annotations

import json
import math
import struct

import pytest

from overseer.rundir.reading import read_run
from overseer.rundir.tensorboard import Scalar, crc32c, event_file, export_scalars, scalars

EVENTS = [
    {"$event": "phase", "$data": {"name": "init"}},
    {"accuracy": 0.5},
    {"logged": 7},
    {"t": 0.5, "loss": 2.0, "batch": {"shape": [2]}, "step": True, "$wrap": {"id": 1}},
    {"t": 0.6, "accuracy": 0.5, "task": "eval"},
    {"t": 0.7, "accuracy": 0.5},
    {"t": 2.5, "n": 300, "loss": "NaN", "batch_size": 32},
    {"t": 3.0, "cpudata": {"memory": [1, 9], "load": 50.0}, "time": 1e9, "task": "main"},
    {"t": 3.1, "gpudata": {"0": {"load": 0.5, "memory": [2, 9], "name": "GPU"}}, "task": "main"},
]


@pytest.fixture
def run(tmp_path):
    facts = {"started": "2026-01-01T00:00:00.500000Z", "pid": 12}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in EVENTS))
    return read_run(tmp_path)


def test_numbers_are_curves_by_task_and_the_machines_apart_at_the_times_of_the_events(run):
    found = [f"{at - 1767225600.5:.1f} {tag} {step} {x}" for tag, step, at, x in scalars(run)]
    assert found == [
        "0.0 train/logged 1 7.0", "0.5 train/loss 1 2.0", "0.6 eval/accuracy 1 0.5",
        "0.7 train/accuracy 1 0.5", "2.5 train/loss 300 nan", "3.0 machine/cpu.memory 1 1.0",
        "3.0 machine/cpu.load 1 50.0", "3.1 machine/gpu.0.load 1 0.5",
        "3.1 machine/gpu.0.memory 1 2.0",
    ]  # fmt: skip


def test_what_was_given_and_logged_is_one_curve_at_the_time_of_each_event(tmp_path):
    events = [
        {"t": 1000.5, "task": "train", "loss": 2.0},
        {"t": 1000.5, "$logged": True, "task": "train", "loss": 2.0},
        {"t": 1001.25, "$logged": True, "accuracy": 0.5},
    ]
    facts = {"schema": 2, "started": "1970-01-01T00:16:40Z"}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in events))
    found = [(tag, step, at) for tag, step, at, _ in scalars(read_run(tmp_path))]
    assert found == [("train/loss", 1, 1000.5), ("train/accuracy", 1, 1001.25)]


def test_a_record_is_its_length_its_data_and_their_checksums():
    """The checksums are those of RFC 3720, B.4."""
    data = [bytes(32), b"\xff" * 32, bytes(range(32)), b""]
    assert [crc32c(each) for each in data] == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0]
    first, second = event_file(1.0, [Scalar("a/é", 300, 2.5, 1e300)])
    for record in (first, second):
        assert len(record) == struct.unpack("<Q", record[:8])[0] + 16
    assert b"brain.Event:2" in first
    assert second[12:-4] == (
        b"\x09" + struct.pack("<d", 2.5) + b"\x10\xac\x02"
        b"\x2a\x0d\x0a\x0b" + b"\x0a\x04a/\xc3\xa9" + b"\x15" + struct.pack("<f", math.inf)
    )


def test_the_file_is_whole_or_not_there_and_tensorboard_reads_it(run, tmp_path):
    written = export_scalars(run, tmp_path / "logs/one")
    assert written.name.startswith("events.out.tfevents.17672256")
    assert [file.name for file in written.parent.iterdir()] == [written.name]
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        export_scalars(run, tmp_path / "file")
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = module.EventAccumulator(str(written.parent))
    read.Reload()
    assert [event.step for event in read.Scalars("train/loss")] == [1, 300]
