"""TensorBoard's event files: what is in them, byte by byte and as TensorBoard reads it."""

from __future__ import annotations

import json
import math
import struct

import pytest

from overseer.rundir.reading import read_run
from overseer.rundir.steps import ROW, header
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


def test_curves_of_steps_come_from_steps_npy_unless_the_script_gives_them(tmp_path):
    rows = [
        (1, "train", 2.0, 8.0), (2, "train", math.nan, 8.0), (1, "eval", math.nan, 4.0),
        (3, "train", 1.0, math.nan), (4, "own", 3.0, 2.0),
    ]  # fmt: skip
    data = b"".join(
        ROW.pack(
            n, task.encode(), at * 10**9, at * 10**9 + 5 * 10**8, items, loss,
            10**8, 4 * 10**8, 0, 0, 0, 0, 0, 1, 0,
        )
        for at, (n, task, loss, items) in enumerate(rows)
    )  # fmt: skip
    (tmp_path / "steps.npy").write_bytes(header(len(rows)) + data)
    events = [
        {"t": 1000.5, "task": "train", "step": 1, "batch_size": 8, "loss": 2.0},
        {"t": 1001.0, "task": "own", "loss": 9.0},
        {"t": 1001.5, "task": "train", "step": 1, "accuracy": 0.5},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in events))
    facts = {
        "schema": 2, "started": "1970-01-01T00:16:40Z", "steps": {"start": 0},
        "tasks": {"train": {}, "eval": {}, "own": {}},
    }  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(facts))
    found = [(tag, step, at, value) for tag, step, at, value in scalars(read_run(tmp_path))]
    assert [one for one in found if one[0].endswith(("loss", "accuracy", "batch_size"))] == [
        ("train/loss", 1, 1000.5, 2.0), ("train/batch_size", 1, 1000.5, 8.0),
        ("own/loss", 1, 1001.0, 9.0), ("train/accuracy", 1, 1001.5, 0.5),
        ("train/batch_size", 2, 1001.5, 8.0), ("eval/batch_size", 1, 1002.5, 4.0),
        ("train/loss", 3, 1003.5, 1.0), ("own/batch_size", 4, 1004.5, 2.0),
    ]  # fmt: skip
    assert ("train/step_seconds", 3, 1003.5, 0.5) in found
    assert ("eval/items_per_second", 1, 1002.5, 8.0) in found
    (tmp_path / "steps.npy").write_bytes(b"torn")
    found = [(tag, step) for tag, step, _, _ in scalars(read_run(tmp_path))]
    assert ("train/loss", 1) in found
    assert not [tag for tag, _ in found if tag.endswith("step_seconds")]


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
