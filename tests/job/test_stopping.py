"""All ranks of a job stop at one step, though only one of them asks to, and none waits."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from overseer.job.stopping import GO, Agreement, decided, pending
from tests.running import Place


class Stopped(Exception):
    """The script was ended, with the reason."""


class Script:
    """One simulated rank: ``step`` is an optimizer step, ``poll`` a turn of its timer."""

    def __init__(self, job, rank, size, rate=100.0):
        self.rank, self.steps, self.reason, self.rate = rank, 0, None, rate
        self.alarms = []
        directory = job / f"rank{rank}"
        directory.mkdir()
        self.write(directory)
        found = SimpleNamespace(rank=SimpleNamespace(rank=rank, world_size=size), path=directory)
        recording = SimpleNamespace(directory=found, made=True)
        measuring = SimpleNamespace(
            fold=SimpleNamespace(steps=lambda: self.steps),
            stop_at=lambda n, task, reached, once: self.alarms.append((n, reached)),
            stepped=lambda: (0.0, self.steps / self.rate),
        )
        self.agreement = Agreement(lambda: recording, lambda: measuring, self.stop)

    def write(self, directory, **facts):
        begun = {
            "started": f"{datetime.now(UTC):%FT%T.%fZ}", "pid": os.getpid(),
            "provenance": {"hostname": os.uname().nodename},
        }  # fmt: skip
        (directory / "run.json").write_text(json.dumps(begun | facts))

    def stop(self, reason):
        raise Stopped(reason)

    def step(self):
        """Complete a step, as ``StepAlarm`` calls what is due."""
        if self.reason is not None:
            return
        self.steps += 1
        due = [each for each in self.alarms if each[0] <= self.steps]
        self.alarms = [each for each in self.alarms if each not in due]
        try:
            for _, reached in due:
                reached()
        except Stopped as stopped:
            self.reason = str(stopped)


@pytest.fixture
def job(tmp_path):
    return lambda size, **options: [Script(tmp_path, rank, size, **options) for rank in range(size)]


def together(ranks, polls, steps=2000):
    """Let all ranks step, one after the other in any order; each polls once a second."""
    for number in range(steps):
        for rank in random.sample(ranks, len(ranks)):
            rank.step()
            if polls(rank, number):
                rank.agreement.poll()


def test_all_stop_at_the_step_that_one_of_them_asked_for(job, tmp_path):
    ranks = job(4)
    together(ranks, lambda rank, number: False, 10)
    assert ranks[2].agreement.ask("loss is low") and ranks[2].agreement.ask("again")
    assert pending(tmp_path) == (10 + 3 + 225, "loss is low"), "2.5 s ahead"
    together(ranks, lambda rank, number: number % 100 == 7 * rank.rank)
    assert {rank.steps for rank in ranks} == {ranks[0].steps}
    assert {rank.reason for rank in ranks} == {"loss is low"}
    assert ranks[0].steps < 400 and pending(tmp_path) == (0, "loss is low")


@pytest.mark.parametrize("seed", range(20))
def test_whenever_ranks_look_none_stops_alone(tmp_path, seed):
    random.seed(seed)
    ranks = [Script(tmp_path, rank, 3) for rank in range(3)]
    together(ranks, lambda rank, number: False, 5)
    assert ranks[0].agreement.ask("x") and ranks[1].agreement.ask("y")
    slow = random.choice([0.001, 0.01, 0.1])
    together(ranks, lambda rank, number: random.random() < slow, 6000)
    assert len({(rank.steps, rank.reason) for rank in ranks}) == 1


def test_a_rank_that_saw_it_too_late_makes_all_go_on_to_a_later_step(job, tmp_path):
    ranks = job(2)
    together(ranks, lambda rank, number: False, 10)
    ranks[0].agreement.ask("x")
    step, _ = pending(tmp_path)
    together(ranks, lambda rank, number: False, step)
    later, _ = pending(tmp_path)
    assert later > step and not any(rank.reason for rank in ranks)
    together(ranks, lambda rank, number: number == 0)
    assert [(rank.steps, rank.reason) for rank in ranks] == [(later, "x")] * 2


def test_a_rank_that_has_ended_is_not_asked(job, tmp_path):
    ranks = job(3)
    together(ranks, lambda rank, number: False, 10)
    ranks[1].write(tmp_path / "rank1", ended="now")
    ranks[0].agreement.ask("x")
    together([ranks[0], ranks[2]], lambda rank, number: number == 3)
    assert [rank.reason for rank in ranks] == ["x", None, "x"]


def test_one_rank_decides_for_all_and_without_all_records_none_is_asked(job, tmp_path):
    ranks = job(2)
    assert not ranks[0].agreement.ask("x"), "it has no steps"
    together(ranks, lambda rank, number: False, 10)
    (tmp_path / "stop-20-rank0").touch()
    assert decided(tmp_path, 2, 20, 50) == "50"
    (tmp_path / "stop-20-rank1").touch()
    assert (decided(tmp_path, 2, 20, 60), decided(tmp_path, 0, 21, 60)) == ("50", GO)
    (tmp_path / "rank1").rename(tmp_path / "elsewhere")
    assert not ranks[0].agreement.ask("x")
    assert pending(tmp_path) == (0, "")
    (tmp_path / "stop.json").write_text("{}")
    assert pending(tmp_path) == (0, "")


DDP = """
    import time
    import torch
    from torch import nn
    from torch.distributed import destroy_process_group, get_rank, init_process_group

    init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(4000):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if get_rank() == 1:
            flag = step
            time.sleep(0.002)
    print("to the end")
    destroy_process_group()
    """
STOP = """
    def instrument_flag(ov):
        yield ov.phases.load_script

        def look(event):
            if event["flag"] >= 30:
                ov.stop("a flag")

        ov.probe("// > flag").subscribe(look)
    """


@pytest.mark.slow
def test_ranks_of_ddp_stop_together_by_number_by_verify_and_by_what_one_of_them_sees(tmp_path):
    pytest.importorskip("torch.distributed.run")
    place = Place(tmp_path)
    place.write("main.py", DDP)
    place.write("voirfile.py", STOP)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "voir"]
    env = {"PYTHONPATH": os.path.abspath("."), "OMP_NUM_THREADS": "1"}
    steps = []
    for at, options in enumerate(
        (["--no-voirfile", "--stop", "20"], ["--no-voirfile", "--verify"], [])
    ):
        ran = place.python(*torchrun, "--run-dir", f"job{at}", *options, "main.py", env=env)
        assert ran.seen == (0, ""), ran.stderr
        assert "Error" not in ran.stderr, ran.stderr
        files = [tmp_path / f"job{at}/rank{rank}/run.json" for rank in (0, 1)]
        facts = [json.loads(file.read_text()) for file in files]
        steps.append({each["tasks"]["train"]["steps"] for each in facts})
        reasons = {each["stopped_early"] for each in facts}
        assert len(steps[-1]) == len(reasons) == 1
    assert steps[0] == {20} and max(steps[1]) <= 200 and max(steps[2]) > 30
    assert reasons == {"ov.stop('a flag')"}
