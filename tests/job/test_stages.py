"""The figures of a pipeline are those of simulated stages whose truth is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.job.figures import job_facts
from overseer.job.stages import batches_of, pipeline_of
from overseer.model.stages import StageTimes
from overseer.rundir.reading import read_run
from overseer.views.summary import render
from tests.job.simulate import SimulatedJob, Slow
from tests.job.simulated_stages import SimulatedPipeline


def figures(of: SimulatedPipeline) -> dict[str, Any]:
    found = pipeline_of(of.members(), "train")
    assert found is not None
    return found


@pytest.mark.parametrize(("schedule", "stages", "several"), [
    ("GPipe", 4, 8), ("1F1B", 4, 8), ("1F1B", 4, 2), ("LoopedBFS", 8, 8), ("Interleaved1F1B", 8, 8),
])  # fmt: skip
@pytest.mark.parametrize("device", [False, True], ids=["host", "device"])
def test_the_bubble_of_equal_stages_is_the_ideal_one(
    schedule: str, stages: int, several: int, device: bool
) -> None:
    of = SimulatedPipeline(
        schedule, (0.01,) * stages, (0.01,) * stages, micro_batches=several, device=device
    )
    found = figures(of)
    assert found["schedule"] == schedule
    assert (found["stages"], found["ranks"], found["micro_batches"]) == (stages, 4, several)
    assert found["ideal"] == 3 / (several * stages / 4 + 3)
    assert found["bubble"] == pytest.approx(of.bubble(), abs=0.005)
    assert found["bubble"] == pytest.approx(found["ideal"], abs=0.005)
    assert found["imbalance"] == pytest.approx(1, abs=0.005)
    assert found["gain"] == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_stages_of_different_depth_are_told_with_the_longest_one(schedule: str) -> None:
    of = SimulatedPipeline(
        schedule, (0.01, 0.01, 0.02, 0.01), (0.02, 0.02, 0.04, 0.02), message=0.001
    )
    found = figures(of)
    assert [one["seconds"] for one in found["each"]] == pytest.approx([0.24, 0.24, 0.48, 0.24])
    assert found["slowest"]["stages"] == [2] and found["slowest"]["ranks"] == [2]
    assert found["slowest"]["why"] == (
        "stage 2 (rank 2) sets the step: 0.48 s of work a run, the mean 0.30 s"
    )
    assert found["imbalance"] == pytest.approx(1.6)
    assert found["bubble"] == pytest.approx(of.bubble(), abs=0.005)
    assert found["ramp_up"] == pytest.approx(0.04)


@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
@pytest.mark.parametrize("unlike", [(0.01, 0.01, 0.02, 0.01), (0.02, 0.01, 0.01), (0.01, 0.03)])
def test_the_gain_is_that_of_equal_stages(schedule: str, unlike: tuple[float, ...]) -> None:
    n = len(unlike)
    found = figures(SimulatedPipeline(schedule, unlike, unlike, ranks=n))
    mean = (sum(unlike) / n,) * n
    equal = figures(SimulatedPipeline(schedule, mean, mean, ranks=n))
    assert found["gain"] == pytest.approx(found["seconds"] / equal["seconds"] - 1, abs=0.01)


def test_of_virtual_stages_the_rank_with_most_work_sets_the_step() -> None:
    deep = (0.01, 0.01, 0.01, 0.01, 0.01, 0.03, 0.01, 0.01)
    of = SimulatedPipeline("Interleaved1F1B", deep, deep)
    found = figures(of)
    assert found["slowest"]["stages"] == [1, 5] and found["slowest"]["ranks"] == [1]
    assert found["slowest"]["why"].startswith("stages 1, 5 (rank 1) set the step: ")
    assert found["imbalance"] == pytest.approx(1.6)
    assert found["bubble"] == pytest.approx(of.bubble(), abs=0.005)


def test_a_schedule_without_a_known_name_has_no_ideal() -> None:
    found = figures(SimulatedPipeline("main.Zigzag"))
    assert "ideal" not in found and found["bubble"] > 0 and found["schedule"] == "main.Zigzag"
    assert "schedule" not in figures(SimulatedPipeline(""))


def test_noise_and_accumulation_are_told_from_idle_time() -> None:
    of = SimulatedPipeline(noise=0.1, accumulated=3, steps=20)
    found, exact = figures(of), SimulatedPipeline()
    assert (found["accumulated"], found["batch"], found["items"]) == (3, 2, 2 * 8 * 3)
    assert exact.bubble() - 0.01 < found["bubble"] < exact.bubble() + 0.1
    assert found["imbalance"] < 1.05


def test_a_run_without_backward_is_not_counted() -> None:
    of = SimulatedPipeline(ranks=1, forward=(0.01,), backward=(0.01,), steps=1, micro_batches=1)
    data = of.events()[0]
    times = StageTimes(
        [{**row, "kind": 0 if row["kind"] == 4 else row["kind"]} for row in of.sites]
    )
    times.read(data)
    assert times.section() is None


def piped(of: SimulatedPipeline, times: int = 1) -> dict[int, dict[str, Any]]:
    """The ``pipeline`` of each rank of a job; of several like it, each for other batches."""
    sections = [one.facts["pipeline"] for one in of.members()]
    return {rank: {"pipeline": section} for rank, section in enumerate(sections * times)}


def test_the_longest_stage_is_no_straggler(tmp_path: Path) -> None:
    deep = (0.01, 0.01, 0.02, 0.01)
    job = SimulatedJob(4, 300, stages=(1, 1, 2, 1))
    plain = job_facts(read_run(job.write(tmp_path / "plain")))
    assert plain["diagnosis"]["verdict"] == "straggler"
    facts = job_facts(
        read_run(job.write(tmp_path / "piped", facts=piped(SimulatedPipeline("1F1B", deep, deep))))
    )
    assert "straggler" not in facts["tasks"]["train"]
    assert facts["diagnosis"]["verdict"] == "pipeline imbalance"
    assert facts["diagnosis"]["next"] == "move layers out of stage 2, for example to stage 0"
    text = render(facts, 200)
    assert "1F1B · 4 stages · 8 micro-batches · bubble 44 %, ideal 27 %" in text
    assert "ramp-up 40 ms" in text and "imbalance 1.60" in text


def test_a_slow_rank_among_those_of_one_stage_is_a_straggler(tmp_path: Path) -> None:
    job = SimulatedJob(4, 300, stages=(1, 2, 1, 2), slow=[Slow(2, 0.3)])
    of = SimulatedPipeline("1F1B", (0.01, 0.02), (0.01, 0.02), ranks=2)
    facts = job_facts(read_run(job.write(tmp_path / "job", facts=piped(of, 2))))
    assert facts["tasks"]["train"]["straggler"]["rank"] == 2
    assert facts["tasks"]["train"]["pipeline"]["each"][1]["ranks"] == [1, 3]


def test_a_pipeline_whose_ranks_are_missing_has_no_bubble() -> None:
    found = pipeline_of(SimulatedPipeline().members()[:3], "train")
    assert found is not None and "bubble" not in found and len(found["each"]) == 3


def by_hand(*places: str, **more: Any) -> list[Any]:
    """Ranks whose stages are known by messages, with passes of 10 and 30 ms in steps of 50 ms."""
    task = {
        "steps": 10, "rate": {"n": 10}, "step_seconds": {"median": 0.05},
        "breakdown": {"forward": 0.1, "backward": 0.3},
    }  # fmt: skip
    made = []
    for rank, place in enumerate(places):
        of = {"by": "messages", "place": place, "micro_batches": 4, "forward_first": False}
        of["messages"] = 8 if place == "middle" else 4
        facts = {"pipeline": {**of, **more}, "tasks": {"train": task}}
        made.append(SimpleNamespace(rank=rank, facts=facts))
    return made


def test_ranks_whose_messages_fit_are_the_stages_of_a_pipeline() -> None:
    found = pipeline_of(by_hand("first", "middle", "last"), "train")
    assert found is not None
    assert (found["by"], found["schedule"], found["stages"]) == ("messages", "1F1B", 3)
    assert [one["ranks"] for one in found["each"]] == [[0], [1], [2]]
    assert found["bubble"] == pytest.approx(0.2) and found["ideal"] == 2 / 6
    found = pipeline_of(by_hand("first", "last", "first", "last", forward_first=True), "train")
    assert found is not None and (found["schedule"], found["stages"]) == ("GPipe", 2)
    assert [one["ranks"] for one in found["each"]] == [[0, 2], [1, 3]]
    assert batches_of(by_hand("first", "last", "first", "last")) == {0: 0, 1: 0, 2: 1, 3: 1}
    assert batches_of(by_hand("first", "first")) is None and batches_of([]) is None


@pytest.mark.parametrize("places", [
    ("first",), ("last", "first"), ("first", "middle"), ("first", "first", "last"),
    ("first", "last", "first"), ("middle", "last"),
])  # fmt: skip
def test_ranks_whose_messages_do_not_fit_are_no_pipeline(places: tuple[str, ...]) -> None:
    assert pipeline_of(by_hand(*places), "train") is None


def test_a_voirfile_tells_the_stage_of_a_rank() -> None:
    members = by_hand("first", "last")
    for rank, one in enumerate(members):
        one.facts["pipeline"] = {"by": "voirfile", "stage": rank, "stages": 2}
    found = pipeline_of(members, "train")
    assert found is not None and found["bubble"] == pytest.approx(0.2)
    assert not {"ideal", "schedule", "ramp_up"} & {*found}


@pytest.mark.parametrize("spoilt", [
    {"stages": 10**15}, {"stages": 0}, {"stages": "4"}, {"own": {"0": 5, "x": {}}}, {"own": []},
    {"own": {"7": {"forward": "x"}}}, {"batch": []}, {"micro_batches": {}}, {"seconds": None},
    {"micro_batches": 0}, {"by": "messages", "place": [], "micro_batches": []}, {"runs": "x"},
])  # fmt: skip
def test_a_damaged_record_of_a_rank_ends_no_summary(tmp_path: Path, spoilt: dict[str, Any]) -> None:
    sections = piped(SimulatedPipeline())
    for rank in range(4):
        told = {rank: {"pipeline": {**sections[rank]["pipeline"], **spoilt}}}
        facts = {**sections, **told} if rank else dict.fromkeys(range(4), told[0])
        job = SimulatedJob(4, 30).write(tmp_path / f"job{rank}", facts=facts)
        assert "4 ranks" in render(job_facts(read_run(job)), 100)
