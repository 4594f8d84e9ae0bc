"""Runs without an end: what their events come to, and whether they go on."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from overseer.record.ongoing import ends_torn, facts_so_far, goes_on, state_of_files
from overseer.record.reading import Run, read_run
from overseer.record.runfile import utc

EVENTS: list[dict[str, Any]] = [
    {"$event": "phase", "$data": {"name": "init"}},
    {"loss": 9.0},
    {"t": 0.5, "loss": 2.0},
    {"t": 0.6, "step": True, "batch": {"shape": [32]}},
    {"t": 1.0, "rate": 10.0, "units": "items/s", "loading_share": 0.5, "compute_share": 0.5},
    {"t": 2.0, "rate": 30.0, "units": "items/s", "loading_share": 0.25, "compute_share": 0.75},
    {"t": 2.5, "n": 300, "step": True},
    {"t": 2.6, "n": 300, "loss": "NaN"},
    {"t": 2.7, "task": "eval", "step": True, "progress": [3, 9]},
    {"t": 3.0, "task": "main", "cpudata": {"load": 40.0, "memory": [1, 2]}},
    {"t": 4.0, "task": "main", "memdata": {"memory": [5, 9]}, "cpudata": {"load": 60.0}},
]


def put(directory: Path, events: list[dict[str, Any]], **facts: Any) -> Run:
    directory.mkdir(exist_ok=True)
    (directory / "run.json").write_text(json.dumps(facts))
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in events))
    return read_run(directory)


def test_what_events_tell_stands_where_run_json_has_it(tmp_path: Path) -> None:
    found = facts_so_far(put(tmp_path, EVENTS, script="main.py"))
    loss = found["tasks"]["train"].pop("loss")
    assert (loss["first"], str(loss["last"]), loss["min"]) == (2.0, "nan", 2.0)
    assert found == {
        "script": "main.py",
        "directory": str(tmp_path),
        "seconds": 4.0,
        "tasks": {
            "train": {
                "steps": 300,
                "units": "items",
                "rate": {"now": 30.0, "q1": 15.0, "median": 20.0, "q3": 25.0},
                "loading": {"share": 0.25},
                "compute": {"share": 0.75},
            },
            "eval": {"steps": 1},
        },
        "progress": [{"task": "eval", "done": 3, "total": 9}],
        "host": {"cpu": {"mean": 50.0, "max": 60.0}, "memory": {"peak": 5, "total": 9}},
    }


def test_a_run_that_has_just_begun_tells_nothing(tmp_path: Path) -> None:
    assert facts_so_far(put(tmp_path, [])) == {"seconds": 0.0, "directory": str(tmp_path)}


@pytest.mark.parametrize(
    "event",
    [{"t": "x", "step": "y", "n": "z"}, {"progress": [1], "cpudata": 3, "memdata": {"memory": 1}}],
)
def test_events_of_any_kind_are_passed_over(event: dict[str, Any], tmp_path: Path) -> None:
    assert facts_so_far(put(tmp_path, [event]))["seconds"] == 0.0


def live(**facts: Any) -> dict[str, Any]:
    """Facts of this process."""
    started = utc(time.time_ns())
    host = {"hostname": socket.gethostname()}
    return {"pid": os.getpid(), "started": started, "provenance": host, **facts}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (live(), True),
        (live(ended="2026-01-01T00:00:00Z"), False),
        (live(pid=2**22 + 1), False),
        (live(started="2000-01-01T00:00:00Z"), False),  # The pid is another's now.
        (live(provenance={"hostname": "elsewhere"}), None),
        ({}, None),
    ],
)
def test_a_run_goes_on_while_its_process_lives(
    facts: dict[str, Any], state: bool | None, tmp_path: Path
) -> None:
    assert goes_on([put(tmp_path, [], **facts)]) is state


def test_a_job_goes_on_while_any_rank_does(tmp_path: Path) -> None:
    runs = [put(tmp_path / "a", [], **live()), put(tmp_path / "b", [], **live(ended="x"))]
    assert goes_on(runs) is True
    assert goes_on(runs[1:]) is False


def test_a_torn_end_is_seen_and_a_change_too(tmp_path: Path) -> None:
    run = put(tmp_path, EVENTS)
    before = state_of_files(run)
    assert not ends_torn(run)
    with run.metrics.path.open("a") as file:
        file.write('{"lo')
    assert ends_torn(run)
    assert state_of_files(run) != before == before
    run.metrics.path.write_text("")
    assert not ends_torn(run)
    run.metrics.path.unlink()
    assert not ends_torn(run)
