"""The rows of a job: ranks by name, what failed first, what is missing, earlier attempts."""

from __future__ import annotations

import pytest

from overseer.views.job import MOST_RANKS, ranks_text
from overseer.views.text import TO

from .test_summary import lines

TASK = {
    "steps": 9,
    "ranks": {
        "rate": {"min": 10.0, "max": 20.0},
        "slowest": 3,
        "waiting": {"min": 0.1, "max": 0.4},
    },
}
WHY = "another rank each time is 12 ms late, in 20 steps: no straggler"


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([3, 0, 9, 8], "ranks 0, 3, 8-9"),
        ([*range(0, 40, 2)], "ranks 0, 2, 4, 6, 8, 10, 12, 14, ... (20 of them)"),
    ],
)
def test_ranks_are_named_briefly(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_a_job_tells_its_ranks_and_who_failed_first() -> None:
    failed = [{"rank": rank, "why": f"exit status {rank}"} for rank in range(2, 2 + MOST_RANKS + 1)]
    job = {
        "ranks": 12, "world_size": 16, "hosts": ["a", "b"], "attempt": 2, "failed": failed,
        "running": [{"rank": 1, "now": "in communication for 40 s"}], "missing": [12, 13, 14, 15],
        "earlier": [{"attempt": 1, "ranks": 16, "steps": 120, "why": "rank 7: killed"}],
        "versions": ["0.1", "0.2"],
    }  # fmt: skip
    task = {**TASK, "straggler": {"kind": "rotating", "why": WHY}}
    shown = lines({"script": "main.py", "job": job, "tasks": {"train": task}, "exit_status": 2})
    assert shown[0] == (
        "voir: main.py · 12 of 16 ranks · 2 hosts · attempt 2 · rank 2: exit status 2"
    )
    expected = (
        f"    ranks   10.0{TO}20.0 items/s each · waiting 10 %{TO}40 %",
        f"    late    {WHY}",
        "  rank 2    exit status 2 · failed first",
        f"  rank {1 + MOST_RANKS}    exit status {1 + MOST_RANKS}",
        "            1 more failed",
        "  rank 1    in communication for 40 s",
        "  missing   ranks 12-15 recorded nothing",
        "  attempt 1 16 ranks, 120 steps · rank 7: killed",
        "  versions  ranks run voir 0.1, 0.2",
    )
    assert set(expected) <= set(shown), shown


def test_ranks_that_wait_for_each_other_have_no_slowest_one() -> None:
    same = {**TASK, "ranks": {"rate": {"min": 10.0, "max": 10.1}, "slowest": 1}}
    shown = lines({"tasks": {"train": same}, "job": {"ranks": 2}})
    assert f"    ranks   10.0{TO}10.1 items/s each" in shown


def test_a_straggler_that_is_the_verdict_is_told_once() -> None:
    task = {**TASK, "straggler": {"kind": "constant", "why": "rank 2 is late"}}
    facts = {"tasks": {"train": task}, "job": {"ranks": 4}}
    facts["diagnosis"] = {"verdict": "straggler", "why": "rank 2 is late"}
    assert sum("rank 2 is late" in line for line in lines(facts)) == 1


def test_processes_that_are_no_ranks_are_not_called_so() -> None:
    failed = [{"rank": 2, "why": "exit status 1"}]
    job = {"ranks": 2, "kind": "process", "failed": failed}
    shown = lines({"script": "main.py", "job": job, "tasks": {"train": TASK}, "exit_status": 1})
    assert shown[0] == "voir: main.py · 2 processes · process 2: exit status 1"
    assert "  process 2 exit status 1" in shown
    assert not any("rank" in line for line in shown)


def test_ranks_that_one_signal_has_ended_have_one_row() -> None:
    failed = [{"rank": rank, "why": "killed by SIGTERM"} for rank in range(256)]
    job = {"ranks": 256, "failed": failed}
    shown = lines({"script": "main.py", "job": job, "tasks": {}, "exit_status": -15})
    assert "  ended     killed by SIGTERM · ranks 0-255" in shown
    assert not any(line.startswith("  rank") for line in shown)
