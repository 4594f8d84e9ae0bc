"""``run.json`` is replaced in one step, and reads as strict JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from overseer.record import runfile
from overseer.record.runfile import utc, write_run

ROOT = Path(__file__).parents[2]


def test_it_holds_what_is_known_and_leaves_out_what_is_not(tmp_path, problems):
    path = tmp_path / "run.json"
    facts = {
        "pid": 1,
        "rank": None,
        "exit_status": 0,
        "tasks": {"train": {"loss": {"last": float("nan")}}},
    }
    assert write_run(path, facts, problems.append)
    assert json.loads(path.read_text()) == {
        "pid": 1,
        "exit_status": 0,
        "tasks": {"train": {"loss": {"last": "NaN"}}},
    }
    assert problems == []


def test_nothing_else_is_left_in_the_directory(tmp_path, problems):
    for pid in (1, 2):
        write_run(tmp_path / "run.json", {"pid": pid}, problems.append)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_a_write_that_fails_keeps_what_stood_there_and_is_told(tmp_path, problems, monkeypatch):
    path = tmp_path / "run.json"
    write_run(path, {"pid": 1}, problems.append)

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runfile.os, "fsync", full)
    assert not write_run(path, {"pid": 2}, problems.append)
    assert json.loads(path.read_text()) == {"pid": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
    (problem,) = problems
    assert problem.slug == "record-unwritable"
    assert "No space left" in problem.what


def test_a_directory_that_has_gone_is_told(tmp_path, problems):
    assert not write_run(tmp_path / "gone" / "run.json", {"pid": 1}, problems.append)
    assert len(problems) == 1


def test_the_start_of_a_run_does_not_wait_for_the_disk(tmp_path, problems, monkeypatch):
    synced = []
    monkeypatch.setattr(runfile.os, "fsync", synced.append)
    write_run(tmp_path / "run.json", {"pid": 1}, problems.append, durable=False)
    assert synced == []
    write_run(tmp_path / "run.json", {"pid": 1}, problems.append)
    assert len(synced) == 1


REPLACER = """
import sys
from pathlib import Path
from overseer.record.runfile import write_run
path = Path(sys.argv[1])
number = 0
while True:
    write_run(path, {"number": number, "text": "x" * 100_000}, print, durable=False)
    if number == 20:
        print("ready", flush=True)
    number += 1
"""


def test_a_process_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    path = tmp_path / "run.json"
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", REPLACER, str(path)],
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert writer.stdout.readline() == b"ready\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert json.loads(path.read_text())["number"] >= 20


@pytest.mark.parametrize(
    ("wall_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_767_605_400_123_456_789, "2026-01-05T09:30:00.123456Z"),
    ],
)
def test_a_moment_is_utc_in_iso_8601(wall_ns, text):
    assert utc(wall_ns) == text
