"""The figures of a job are those of its ranks, whatever state their records are in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from overseer.errors import VoirError
from overseer.job.figures import MOST_PROBLEMS, UNTOLD, job_facts
from overseer.job.verdict import described
from overseer.rundir.reading import read_run
from overseer.rundir.steps import ROW, ROWS_OFFSET
from overseer.views.summary import render
from overseer.views.text import TO
from tests.job.simulate import STEP, Clock, SimulatedJob, Slow

SLOW = SimulatedJob(8, 300, 1, 0.05, slow=[Slow(2, 0.15, "backward")])


def facts_of(job: SimulatedJob, directory: Path, **more: Any) -> dict[str, Any]:
    return job_facts(read_run(job.write(directory / "job", **more)))


def straggler_of(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = facts["tasks"]["train"]["straggler"]
    return found


def test_the_slow_rank_of_a_job_is_told_and_is_its_verdict(tmp_path: Path) -> None:
    facts = facts_of(SLOW, tmp_path)
    found = straggler_of(facts)
    assert (found["kind"], found["rank"], found["part"]) == ("constant", 2, "backward")
    assert found["why"].startswith("rank 2 arrives last in 83 % of steps, 15 ms late: ")
    assert "its backward takes 65 ms of its own, the others' 50 ms" in found["why"]
    assert facts["diagnosis"]["verdict"] == "straggler"
    assert facts["diagnosis"]["next"].startswith("rank 2: its device")
    train = facts["tasks"]["train"]
    assert train["items"] == 8 * 300 * 32
    assert (
        train["ranks"]["n"] == 8 and train["ranks"]["rate"]["min"] <= train["ranks"]["rate"]["max"]
    )
    assert train["rate"]["wall"] == pytest.approx(8 * train["ranks"]["rate"]["min"], rel=0.1)
    assert facts["job"]["ranks"] == 8


CLOCKS = {0: Clock(3600.0), 2: Clock(-500.0, 1e-4), 5: Clock(1e6, -5e-5)}


@pytest.mark.parametrize("more", [
    {"clocks": CLOCKS}, {"torn": [2, 4]}, {"missing": [0, 5]}, {"killed": {1: 250, 2: 251}},
    {"killed": {6: 30}}, {"strides": {1: 2}}, {"strides": {2: 4, 3: 2}},
    {"facts": {2: {"version": "1.9.0"}}},
], ids=lambda more: next(iter(more)))  # fmt: skip
def test_the_slow_rank_is_found_whatever_the_records_lack(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    found = straggler_of(facts_of(SLOW, tmp_path, **more))
    assert (found["kind"], found["rank"], found["part"]) == ("constant", 2, "backward")
    assert found["examined"] >= 60


def test_a_damaged_or_absent_file_of_steps_is_left_out_and_reported(tmp_path: Path) -> None:
    SLOW.write(tmp_path)
    (tmp_path / "rank0/steps.npy").write_bytes(b"what?")
    (tmp_path / "rank1/steps.npy").unlink()
    os_steps = (tmp_path / "rank3/steps.npy").read_bytes()
    (tmp_path / "rank3/steps.npy").write_bytes(os_steps[: ROWS_OFFSET + 5 * ROW.size + 7])
    said: list[VoirError] = []
    facts = job_facts(read_run(tmp_path), said.append)
    assert straggler_of(facts)["rank"] == 2 and straggler_of(facts)["examined"] == 290
    assert [each.slug for each in said] == ["steps-damaged"]


@pytest.mark.parametrize("between", [False, True])
def test_what_one_rank_does_between_steps_is_its_pause(tmp_path: Path, between: bool) -> None:
    job = SimulatedJob(4, 400, 3, slow=[Slow(0, 8.0, "pause", 50)])
    found = straggler_of(facts_of(job, tmp_path, between=between))
    assert (found["kind"], found["rank"], found["part"]) == ("recurring", 0, "pause")
    assert found["period"] == 50 and found["late"] == pytest.approx(0.8, rel=0.1)
    assert found["why"].startswith("rank 0 is 0.80 s late every 50th step: its pauses take 0.80 s")


def test_the_steps_of_a_long_job_are_sampled_over_all_of_it(tmp_path: Path) -> None:
    job = SimulatedJob(8, 15_000, 5, slow=[Slow(5, 0.3, steps=(7000, 1 << 40))])
    found = straggler_of(facts_of(job, tmp_path))
    assert (found["kind"], found["rank"]) == ("constant", 5)
    assert found["first"] == pytest.approx(7000, abs=1500)
    assert 9900 < found["examined"] <= 10_000


@pytest.mark.parametrize(("verdict", "why", "more"), [
    ("communication-bound", "all ranks wait at once in 37 % of the time, 61 ms a step",
     {"collective": 0.06}),
    ("waiting for other ranks",
     "ranks wait 41 % of their steps for the last one, another each time",
     {"slow": [Slow(None, 0.9)]}),
])  # fmt: skip
def test_waiting_that_no_rank_causes_is_the_verdict_of_the_job(
    tmp_path: Path, verdict: str, why: str, more: dict[str, Any]
) -> None:
    facts = facts_of(SimulatedJob(8, 200, 1, 0.03, tails=0.0, **more), tmp_path)
    assert (facts["diagnosis"]["verdict"], facts["diagnosis"]["why"]) == (verdict, why)


def test_ranks_that_see_the_same_batch_count_once(tmp_path: Path) -> None:
    job = SimulatedJob(4, 100, 1)
    alike = facts_of(job, tmp_path / "1", same_losses=True)
    assert alike["tasks"]["train"]["items"] == 100 * 32
    said = {rank: {"parallel": {"data": [rank // 2, 2], "by": "device mesh"}} for rank in range(4)}
    both = facts_of(job, tmp_path / "2", facts=said)
    assert both["tasks"]["train"]["items"] == 2 * 100 * 32
    assert both["job"]["parallel"] == {"size": 2, "by": "device mesh"}


def test_without_losses_no_rate_of_the_job_is_invented(tmp_path: Path) -> None:
    job = SimulatedJob(4, 100, 1, losses=False)
    train = facts_of(job, tmp_path)["tasks"]["train"]
    assert "items" not in train and "wall" not in train["rate"]
    assert train["items_unknown"] == UNTOLD and train["ranks"]["rate"]["min"] > 0


def test_who_failed_first_is_told(tmp_path: Path) -> None:
    job = SimulatedJob(4, 100, 1)
    ended = {"ended": "2026-11-01T10:01:00.000+00:00", "exit_status": 7, "error": "ValueError: x"}
    later = {"ended": "2026-11-01T10:01:09.000+00:00", "exit_status": -15}
    facts = facts_of(job, tmp_path, facts={2: ended, 0: later}, missing=[3])
    assert (facts["exit_status"], facts["error"]) == (7, "ValueError: x")
    assert facts["job"]["failed"] == [
        {"rank": 2, "why": "ValueError: x"}, {"rank": 0, "why": "killed by SIGTERM"},
    ]  # fmt: skip
    assert facts["job"]["missing"] == [3]


def test_the_problems_of_a_thousand_ranks_are_told_once_and_are_bounded(tmp_path: Path) -> None:
    def problems(rank: int) -> list[dict[str, str]]:
        own = [f"{n} of {rank}" for n in range(5)]
        return [{"slug": "x", "who": "y", "what": what} for what in [*map(str, range(5)), *own]]

    said = {rank: {"problems": problems(rank)} for rank in range(1000)}
    found = facts_of(SimulatedJob(1000, 3), tmp_path, facts=said)["problems"]
    assert [each for each in found if "ranks" not in each] == problems(0)[:5]
    assert found[5]["ranks"] == [0] and len(found) == MOST_PROBLEMS


def test_a_sentence_tells_each_kind() -> None:
    found = {"rank": 2, "ranks": [2], "part": "backward", "own": 0.013, "others": 0.002,
             "late": 0.011, "last": 0.97, "steps": 290, "examined": 290}  # fmt: skip
    takes = "its backward takes 13 ms of its own, the others' 2 ms"

    def told(**more: object) -> str:
        return described({**found, **more})

    gain = "; like the others, the job would be 12 % faster"
    assert told(kind="constant", gain=0.12) == (
        f"rank 2 arrives last in 97 % of steps, 11 ms late: {takes}{gain}"
    )
    assert told(kind="constant") == f"rank 2 is slow in all steps, 11 ms late: {takes}"
    assert told(kind="constant", gain=0.0, first=50, ranks=[2, 5]).startswith(
        f"rank 2 arrives last in 97 % of 290 steps from step 50 on, 11 ms late: {takes} (also 5)"
    )
    for period, name in (2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st"), (50, "50th"):
        assert told(kind="recurring", period=period).startswith(
            f"rank 2 is 11 ms late every {name} step: "
        )
    assert told(kind="recurring") == f"rank 2 is 11 ms late in 290 of 290 steps: {takes}"
    assert told(kind="one-off", steps=1, first=9) == f"rank 2 is 11 ms late in step 9: {takes}"
    assert (
        told(kind="rotating") == "another rank each time is 11 ms late, in 290 steps: no straggler"
    )


def test_a_damaged_record_of_a_rank_leaves_those_of_the_others(tmp_path: Path) -> None:
    job = SimulatedJob(3, 100)
    facts_of(job, tmp_path)
    (tmp_path / "job/rank1/run.json").write_text("{")
    facts = job_facts(read_run(tmp_path / "job"))
    assert (facts["job"]["ranks"], facts["job"]["missing"]) == (2, [1])
    assert facts["tasks"]["train"]["items"] == 2 * 100 * 32


def test_a_rank_alone_of_several_is_a_job_that_lacks_the_others(tmp_path: Path) -> None:
    facts_of(SimulatedJob(2, 100), tmp_path)
    shutil.rmtree(tmp_path / "job/rank0")
    facts = job_facts(read_run(tmp_path / "job"))
    assert (facts["job"]["ranks"], facts["job"]["missing"]) == (1, [0])


def test_rates_of_ranks_are_compared_by_the_same_steps(tmp_path: Path) -> None:
    for rank, more in enumerate(({"steady": 18.0}, {})):
        task = {"steps": 9, "items": 90, "rate": {"wall": 15.0 + rank, **more}}
        facts = {"rank": rank, "world_size": 2, "tasks": {"train": task}, "pid": 1}
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/run.json").write_text(json.dumps({**facts, "ended": "2026"}))
    ranks = job_facts(read_run(tmp_path))["tasks"]["train"]["ranks"]
    assert (ranks["rate"], ranks["slowest"]) == ({"min": 15.0, "max": 16.0}, 0)


def idle(seconds, doing=None, **more):
    return {"idle": {"seconds": seconds, "step": 40, **({"doing": doing} if doing else {})}, **more}


HUNG = {
    0: idle(76.0, "communication"), 1: idle(75.0, "forward"), 2: idle(77.0, "communication"),
    3: idle(9.0, "forward"),
}  # fmt: skip


def test_a_job_that_hung_says_for_how_long_and_what_its_ranks_were_doing(tmp_path):
    killed = {"ended": "2026-11-01T10:10:00.000+00:00", "exit_status": -15}
    facts = {rank: {**each, **killed} for rank, each in HUNG.items()}
    job = SimulatedJob(ranks=5, steps=40).write(tmp_path, facts=facts)
    found = job_facts(read_run(job))
    assert found["job"]["idle"] == {
        "seconds": 75.0,
        "ended": True,
        "doing": [
            {"ranks": [1], "what": "forward"},
            {"ranks": [0, 2], "what": "communication", "waits": True},
        ],
    }
    said = "no step for 1 min 15 s before the end: rank 1 is in forward; ranks 0, 2 wait in"
    assert said in " ".join(render(found, 100).split())


def test_the_same_is_said_while_it_hangs_unless_steps_are_so_long(tmp_path):
    facts = {rank: {**each, "now": "running"} for rank, each in HUNG.items()}
    job = SimulatedJob(ranks=5, steps=40).write(tmp_path / "a", facts=facts)
    shown = render(job_facts(read_run(job)), 100)
    said = "no step for 1 min 15 s: rank 1 is in forward; ranks 0, 2 wait in communication"
    assert said in " ".join(shown.split())
    slow = SimulatedJob(ranks=5, steps=40, parts={**STEP, "forward": 5.0})
    job = slow.write(tmp_path / "b", facts=facts)
    assert "idle" not in job_facts(read_run(job))["job"]


def test_ranks_that_were_killed_earlier_have_fewer_steps_and_the_loss_is_of_one_rank(tmp_path):
    job = SimulatedJob(ranks=3, steps=60).write(tmp_path, killed={1: 55, 2: 49})
    train = job_facts(read_run(job))["tasks"]["train"]
    assert (train["steps"], train["ranks"]["steps"]) == (60, {"min": 49, "max": 60})
    assert train["loss"] == {"first": 1.0, "last": 0.5, "rank": 0}
    lines = render(job_facts(read_run(job)), 100).splitlines()
    assert "    loss    1 → 0.5 · of rank 0" in lines
    assert any(line.startswith("    ranks") and f"49{TO}60 steps" in line for line in lines)
