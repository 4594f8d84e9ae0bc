"""``metrics.jsonl`` and ``run.json`` are whole at any moment, and losing one troubles no script."""

from __future__ import annotations

import errno
import json
import os
import re

import pytest

from overseer.rundir import metrics
from overseer.rundir.metrics import MetricsLog
from overseer.rundir.reading import Metrics
from overseer.rundir.runfile import SCHEMA as SCHEMA_NUMBER
from overseer.rundir.runfile import utc, write_run
from tests.running import SCHEMA, faults

LINES = [b'{"step": 1}\n', b'{"step": 2}\n']


@pytest.fixture
def log(tmp_path, problems):
    (tmp_path / "metrics.jsonl").touch()
    return MetricsLog(tmp_path / "metrics.jsonl", problems.append)


def steps(log):
    return [event["step"] for event in Metrics(log.path)]


def test_lines_are_appended_and_no_descriptor_is_kept_until_the_file_is_deleted(log, problems):
    before = os.listdir("/dev/fd")
    log.append(LINES)
    log.append([b'{"step": 3}\n'])
    assert os.listdir("/dev/fd") == before
    assert (steps(log), log.written, log.failure(), problems) == ([1, 2, 3], 3, None, [])
    log.path.unlink()
    log.append(LINES)
    assert not log.path.exists(), "it is not begun anew"
    assert (log.written, log.lost, [p.slug for p in problems]) == (0, 5, ["record-unwritable"])


@pytest.mark.parametrize("room", [0, 5, 12, 17, 23])
def test_on_a_full_disk_whole_lines_stay_and_that_is_told_once(log, monkeypatch, problems, room):
    left, real, whole = [room], os.write, room // len(LINES[0])

    def write(fd, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        some = min(left[0], len(data), 4)  # Short writes are completed.
        left[0] -= some
        return real(fd, data[:some])

    monkeypatch.setattr(metrics.os, "write", write)
    log.append(LINES)
    log.append(LINES)
    assert log.path.read_bytes() == b"".join(LINES[:whole])
    assert (log.written, log.lost, len(problems)) == (whole, 4 - whole, 1)
    error = f"No space left on device; lines lost: {4 - whole}"
    assert log.failure() == {"name": "metrics.jsonl", "state": "failed", "error": error}
    left[0] = 1000
    log.append([b'{"step": 9}\n'])
    assert steps(log)[-1] == 9


def refuse(*args):
    raise OSError(errno.EMFILE, "Too many open files")


def test_without_a_descriptor_the_caller_waits(log, monkeypatch, problems):
    monkeypatch.setattr(metrics.os, "open", refuse)
    with pytest.raises(OSError):
        log.append(LINES)
    assert (log.lost, problems) == (0, [])


# run.json


def test_it_is_replaced_in_one_step_and_a_write_that_fails_keeps_what_stood_there(
    tmp_path, problems, monkeypatch
):
    path = tmp_path / "run.json"
    for pid in (1, 2):
        facts = {"pid": pid, "rank": None, "tasks": {"train": {"loss": {"last": float("nan")}}}}
        assert write_run(path, facts, problems.append)
    assert json.loads(path.read_text()) == {"pid": 2, "tasks": {"train": {"loss": {"last": "NaN"}}}}
    monkeypatch.setattr(os, "fsync", refuse)
    assert write_run(path, {"pid": 3}, problems.append, durable=False)  # It does not wait for it.
    assert problems == []
    assert not write_run(path, {"pid": 4}, problems.append)
    assert not write_run(tmp_path / "gone" / "run.json", {"pid": 4}, problems.append)
    assert json.loads(path.read_text()) == {"pid": 3}
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
    assert ["Too many open files" in problem.what for problem in problems] == [True, False]


def test_a_moment_is_utc_in_iso_8601():
    assert utc(0) == "1970-01-01T00:00:00.000000Z"
    assert utc(1_767_605_400_123_456_789) == "2026-01-05T09:30:00.123456Z"


def test_the_schema_has_the_keys_that_the_page_describes():
    table = (SCHEMA.parent / "run-directory.md").read_text("utf-8").partition("## `run.json`")[2]
    rows = [line for line in table.partition("###")[0].splitlines() if line.startswith("| `")]
    named = [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(json.loads(SCHEMA.read_text("utf-8"))["properties"])


@pytest.mark.parametrize(
    ("task", "right"),
    [
        ({"steps": 1, "loss": {"last": "NaN"}}, True),
        ({"step": 1}, False),
        ({"loading": {"seconds": 1, "share": 2}}, False),
    ],
)
def test_a_record_that_is_not_as_the_schema_says_has_faults(task, right):
    least = {
        "schema": SCHEMA_NUMBER,
        "argv": ["voir"],
        "script": "a",
        "voirfiles": [],
        "pid": 1,
        "version": "0",
    }
    least["started"] = utc(0)
    assert faults(least) == []
    assert (faults({**least, "tasks": {"train": task}}) == []) == right
