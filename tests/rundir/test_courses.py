"""Courses of step times for comparing single runs, from ``steps.npy``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overseer.model.summary import COURSE as MAX_MEANS
from overseer.rundir.courses import with_courses
from overseer.rundir.reading import read_run
from overseer.rundir.steps import ROW, header

COURSE = {"steps": 5, "means": [1.0]}


def written(path: Path, n: int) -> Path:
    """A run of n steps of 1, 2, 3, ... ms, the first two of them skipped by its rate."""
    task = {"rate": {"skipped": 2}, "step_seconds": {"median": 1.0, "course": COURSE}}
    facts = {"schema": 2, "tasks": {"train": task, "eval": {}}}
    (path / "run.json").write_text(json.dumps(facts))
    rows = [
        ROW.pack(at, b"train", 0, 1, 1.0, 1.0, *(at * 500_000,) * 2, 0, 0, 0, 0, 99, 1, 0)
        for at in range(1, n + 1)
    ]
    (path / "steps.npy").write_bytes(header(n) + b"".join(rows))
    return path


@pytest.mark.parametrize("n", [3, 102, 1002])
def test_means_are_of_equal_parts_of_the_steps_in_the_rate(tmp_path: Path, n: int) -> None:
    facts = with_courses(read_run(written(tmp_path, n)))
    course = facts["tasks"]["train"]["step_seconds"]["course"]
    length = -(-(n - 2) // MAX_MEANS)
    assert (course["steps"], len(course["means"])) == (length, (n - 2) // length)
    assert course["means"][0] == pytest.approx((3 + (2 + length)) / 2 / 1000)
    assert facts["tasks"]["train"]["step_seconds"]["median"] == 1.0
    assert facts["tasks"]["eval"] == {}


@pytest.mark.parametrize("content", [None, b"", b"torn", header(0)])
def test_without_rows_the_course_of_run_json_stays(tmp_path: Path, content: bytes | None) -> None:
    path = written(tmp_path, 5)
    (path / "steps.npy").unlink()
    if content is not None:
        (path / "steps.npy").write_bytes(content)
    assert with_courses(read_run(path))["tasks"]["train"]["step_seconds"]["course"] == COURSE
