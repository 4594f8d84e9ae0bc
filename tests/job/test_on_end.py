"""The process that runs the command of ``--on-end``: what it tells of a run, and when."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from overseer.clock import process_start
from overseer.job import on_end
from overseer.job.on_end import EndWatch, RunProcess, divergence_of_loss, how_ended

HANGS = {"hangs": True, "seconds": 62.0, "doing": "loading", "call": "fetch"}
ENDED = {"ended": "2026-01-02T03:04:05.000000Z", "exit_status": 0}


class Run:
    """A directory that changes while it is watched.

    Args:
        path: The directory.
        own: The name of that of its process; empty: the same.
    """

    def __init__(self, path: Path, own: str = "") -> None:
        self.path, self.own = path, path / own
        self.told: list[tuple[str, str, int | None]] = []
        self._stamp = 0

    def write(self, facts: dict[str, Any], name: str = "") -> None:
        """Replace the ``run.json`` of one of its processes."""
        file = self.path / name / "run.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(facts))
        self._stamp += 1
        os.utime(file, (self._stamp, self._stamp))

    def watch(self, *looks: Any) -> list[tuple[str, str, int | None]]:
        """Watch it; before each look something happens: the facts of its process, or its end."""
        happens = iter(looks)

        def over_within(seconds: float) -> bool:
            facts = next(happens, None)
            if facts is not None:
                self.write(facts, self.own.name if self.own != self.path else "")
            return facts is None

        EndWatch(self.path, self.own, over_within, lambda *how: self.told.append(how))()
        assert next(happens, None) is None
        return self.told


def lost(*losses: float | str, steps: int = 9) -> dict[str, Any]:
    """Facts with a first and a last loss."""
    loss = dict(zip(("first", "last"), losses, strict=True))
    return {"tasks": {"train": {"steps": steps, "loss": loss}}}


def test_a_hang_and_a_divergence_are_told_once_each_and_then_the_end(tmp_path: Path) -> None:
    hangs, diverges = {"idle": HANGS}, lost(2.0, 21.0)
    told = Run(tmp_path).watch({}, hangs, hangs, {}, diverges, hangs, diverges, {**ENDED})
    assert [ended for ended, _, _ in told] == ["hung", "diverged", "ended"]
    assert told[0][1] == "no step for 62 s: in fetch"
    assert told[1][1] == "the loss is 21, at first 2"
    assert told[2] == ("ended", "finished", 0)


def test_what_is_seen_only_in_the_finished_record_is_told_before_the_end(tmp_path: Path) -> None:
    assert [each[0] for each in Run(tmp_path).watch({**ENDED, **lost(2.0, "NaN")})] == [
        "diverged",
        "ended",
    ]


def test_the_end_comes_with_the_verdict(tmp_path: Path) -> None:
    verdict = {"verdict": "loader-bound", "why": "loading takes 60 % of a step"}
    ((_, why, _),) = Run(tmp_path).watch({**ENDED, "diagnosis": verdict})
    assert why == "finished; loader-bound: loading takes 60 % of a step"


def test_any_rank_of_a_job_may_hang(tmp_path: Path) -> None:
    run = Run(tmp_path, "rank0")
    run.write({**ENDED, "rank": 3, "idle": HANGS}, "rank3")
    told = run.watch({"rank": 0}, {**ENDED, "rank": 0})
    assert told[0][:2] == ("hung", "rank 3: no step for 62 s: in fetch")
    assert [each[0] for each in told] == ["hung", "ended"]


@pytest.mark.parametrize("goes_on", ["the process", "another rank"])
def test_the_end_is_told_after_some_seconds_if_something_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: str
) -> None:
    seconds = iter(range(0, 100, 3))
    monkeypatch.setattr(on_end, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(on_end, "has_ended", lambda directory: False)
    run = Run(tmp_path, "rank0")
    run.write({"rank": 1}, "rank1")
    looks = [{**ENDED, "rank": 0}, {**ENDED, "rank": 0}, *[None] * 5]
    gone = [goes_on != "the process"] * 7
    waited = []

    def over_within(pause: float) -> bool:
        waited.append(pause)
        if (facts := looks[len(waited) - 1]) is not None:
            run.write(facts, "rank0")
        return gone[len(waited) - 1]

    EndWatch(run.path, run.own, over_within, lambda *how: run.told.append(how))()
    assert run.told == [("ended", "finished", 0)]
    assert 1 < len(waited) < 7


def test_a_record_that_is_gone_or_damaged_is_told_as_killed(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[1, 2")
    (ended, why, status), = Run(tmp_path).watch()  # fmt: skip
    assert (ended, status) == ("killed", None)
    assert why.startswith("its record cannot be read: ")


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (lost(2.0, 19.0), ""),
        (lost(2.0, 21.0), "the loss is 21, at first 2"),
        (lost(2.0, "NaN"), "the loss is NaN, at first 2"),
        (lost(2.0, "Infinity"), "the loss is Infinity, at first 2"),
        (lost("NaN", "NaN"), "the loss is NaN, at first NaN"),
        (lost("Infinity", 3.0), ""),
        (lost(0.0, 5.0), ""),
        (lost(-2.0, 5.0), ""),
        (lost(2.0, "NaN", steps=0), "the loss is NaN, at first 2"),
        ({"tasks": {"train": {"steps": 3}, "eval": lost(1.0, 99.0)["tasks"]["train"]}}, ""),
        ({"tasks": {"train": {"loss": [1]}}}, ""),
        ({}, ""),
    ],
)
def test_a_loss_has_diverged_that_is_no_number_or_ten_times_its_start(
    facts: dict[str, Any], text: str
) -> None:
    assert divergence_of_loss(facts) == text


@pytest.mark.parametrize(
    ("facts", "ended"),
    [
        (ENDED, "ended"),
        ({"ended": "", "ended_by": "replaced by another program"}, "ended"),
        ({**ENDED, "exit_status": 1}, "failed"),
        ({**ENDED, "exit_status": -2}, "killed"),
        ({"ended": "", "ended_by": "killed in loading"}, "killed"),
        ({}, "killed"),
    ],
)
def test_the_record_tells_how_a_run_ended(facts: dict[str, Any], ended: str) -> None:
    assert how_ended(facts) == ended


@pytest.mark.parametrize("found", ["by a descriptor", "by its start"])
def test_the_end_of_a_process_that_is_no_child_is_seen(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    if found == "by its start":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        process = RunProcess(cat.pid, process_start(cat.pid))
        other = RunProcess(cat.pid, process_start(cat.pid) + 1)  # A pid that has been reused.
        assert (process.over_within(0), other.over_within(0)) == (False, True)
        cat.kill()
        assert any(process.over_within(0.1) for _ in range(300))
    assert process.over_within(0)
