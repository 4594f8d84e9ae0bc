"""``run.json`` is replaced in one step, and reads as strict JSON."""

from __future__ import annotations

import json
import re

from overseer.record import runfile
from overseer.record.runfile import utc, write_run
from tests.running import SCHEMA, faults


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


def test_a_moment_is_utc_in_iso_8601():
    assert utc(0) == "1970-01-01T00:00:00.000000Z"
    assert utc(1_767_605_400_123_456_789) == "2026-01-05T09:30:00.123456Z"


def test_the_schema_has_the_keys_that_the_page_describes():
    table = (SCHEMA.parent / "run-directory.md").read_text("utf-8").partition("## `run.json`")[2]
    rows = [line for line in table.partition("###")[0].splitlines() if line.startswith("| `")]
    named = [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(json.loads(SCHEMA.read_text("utf-8"))["properties"])


def test_a_record_that_is_not_as_the_schema_says_has_faults():
    least = {"argv": ["voir"], "script": "a", "voirfiles": [], "pid": 1, "version": "0"}
    least["started"] = utc(0)
    valid = {"steps": 1, "loss": {"last": "NaN"}}
    for task in ({"step": 1}, {"loading": {"seconds": 1, "share": 2}}):
        assert faults({**least, "tasks": {"train": task}}) != []
    assert faults(least) == faults({**least, "tasks": {"train": valid}}) == []
