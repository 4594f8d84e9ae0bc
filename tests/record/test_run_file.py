"""``run.json`` is replaced in one step, and reads as strict JSON."""

from __future__ import annotations

import json

import pytest

from overseer.record import runfile
from overseer.record.runfile import utc, write_run


def test_it_holds_what_is_known_and_nothing_else_is_left_beside_it(tmp_path, problems):
    path = tmp_path / "run.json"
    for pid in (1, 2):
        facts = {"pid": pid, "rank": None, "tasks": {"train": {"loss": {"last": float("nan")}}}}
        assert write_run(path, facts, problems.append)
    assert json.loads(path.read_text()) == {"pid": 2, "tasks": {"train": {"loss": {"last": "NaN"}}}}
    assert ([entry.name for entry in tmp_path.iterdir()], problems) == (["run.json"], [])


def test_a_write_that_fails_keeps_what_stood_there_and_is_told(tmp_path, problems, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    path = tmp_path / "run.json"
    monkeypatch.setattr(runfile.os, "fsync", full)
    assert write_run(path, {"pid": 1}, problems.append, durable=False)  # It does not wait for it.
    assert not write_run(path, {"pid": 2}, problems.append)
    assert not write_run(tmp_path / "gone" / "run.json", {"pid": 2}, problems.append)
    assert json.loads(path.read_text()) == {"pid": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
    assert ["No space left" in p.what for p in problems] == [True, False]


@pytest.mark.parametrize(
    ("wall_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_767_605_400_123_456_789, "2026-01-05T09:30:00.123456Z"),
    ],
)
def test_a_moment_is_utc_in_iso_8601(wall_ns, text):
    assert utc(wall_ns) == text
