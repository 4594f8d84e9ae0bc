"""Ranks of one job find one directory, whatever started them; those of another job never do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from overseer.errors import VoirError
from overseer.rundir import job as jobs
from overseer.rundir.job import WIDE_NS, WINDOW_NS, Job, OtherRun, find_launcher, find_rank
from overseer.rundir.reading import read_job, read_run

STARTED = 1_767_605_400_123_456_789
SECOND = 1_000_000_000
PORT = {"MASTER_ADDR": "node17", "MASTER_PORT": "29500"}
ELASTIC = {"TORCHELASTIC_RUN_ID": "none", **PORT}


class Machines:
    """Starts simulated ranks on simulated hosts: each has launchers, dead or alive."""

    def __init__(self, base, monkeypatch):
        self.base, self.host, self.dead = base, "node1", set()
        monkeypatch.setattr(jobs, "place", lambda: f"{self.host} boot")
        monkeypatch.setattr(jobs, "_alive", lambda launcher: launcher not in self.dead)

    def job(self, rank, launcher=1, host="node1", world=2, started=STARTED, **environ):
        self.host = host
        found = find_rank({"RANK": str(rank), "WORLD_SIZE": str(world), **environ})
        return Job(found, "train", started, f"{host}-{launcher}-7" if launcher else "")

    def start(self, *args, **options):
        job = self.job(*args, **options)
        return str(job.find(self.base).relative_to(self.base))

    def end(self, name, **facts):
        ended = {"ended": "now", "provenance": {"hostname": self.host}, **facts}
        (self.base / name / "run.json").write_text(json.dumps(ended))


@pytest.fixture
def machines(tmp_path, monkeypatch):
    return Machines(tmp_path, monkeypatch)


@pytest.mark.parametrize("environ", [{}, {"MASTER_PORT": "0"}, {"TORCHELASTIC_RUN_ID": "none"}])
def test_two_jobs_at_once_of_one_script_are_told_apart_by_their_launchers(machines, environ):
    first, second = {"launcher": 1, **environ}, {"launcher": 2, **environ}
    name = "train-torchrun" if "TORCHELASTIC_RUN_ID" in environ else "train-ranks"
    assert machines.start(1, **first) == f"{name}/rank1"
    assert machines.start(1, **second) == f"{name}-2/rank1"
    assert machines.start(0, **second) == f"{name}-2/rank0"
    assert machines.start(0, **first) == f"{name}/rank0"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PORT, {**PORT, "MASTER_PORT": "29501"}),
        ({**ELASTIC, "TORCHELASTIC_RUN_ID": "x"}, {**ELASTIC, "TORCHELASTIC_RUN_ID": "y"}),
        ({"SLURM_JOB_ID": "9", **PORT}, {"SLURM_JOB_ID": "9", **PORT, "MASTER_PORT": "29501"}),
        # A run id may be used again: then the rendezvous differs.
        (
            {**ELASTIC, "TORCHELASTIC_RUN_ID": "x"},
            {**ELASTIC, "TORCHELASTIC_RUN_ID": "x", "MASTER_PORT": "29501"},
        ),
    ],
)
def test_two_jobs_at_once_on_two_machines_are_told_apart_by_port_and_id(machines, one, other):
    nodes = ("node1", 1), ("node2", 5)
    first = [machines.start(n, at, host, **one) for n, (host, at) in enumerate(nodes)]
    second = [machines.start(n, at + 1, host, **other) for n, (host, at) in enumerate(nodes)]
    for found in (first, second):
        assert [each.rpartition("/")[2] for each in found] == ["rank0", "rank1"]
        assert len({each.rpartition("/")[0] for each in found}) == 1
    assert first[0] != second[0]


@pytest.mark.parametrize("environ", [PORT, ELASTIC, {"SLURM_JOB_ID": "9"}])
def test_several_launchers_on_one_machine_and_ranks_minutes_apart_share_one_job(machines, environ):
    late = STARTED + WIDE_NS
    assert machines.start(1, 2, **environ).endswith("/rank1")
    name = machines.start(0, 1, started=late, **environ).partition("/")[0]
    assert sorted(each.name for each in (machines.base / name).iterdir()) == [
        "job.json", "launcher-node1-1-7", "rank0", "rank1",
    ]  # fmt: skip
    assert machines.start(3, 9, "node3", started=late + 1, **environ) == f"{name}-2/rank3"


def test_ranks_of_one_shell_may_be_minutes_apart_if_the_job_goes_on(machines):
    late = {"started": STARTED + WINDOW_NS + 1}
    assert machines.start(0) == "train-ranks/rank0"
    assert machines.start(1, 0, "node2", **late) == "train-ranks-2/rank1", "no launcher is known"
    assert machines.start(1, **late) == "train-ranks/rank1"
    assert machines.start(2, world=3) == "train-ranks-3/rank2"
    machines.end("train-ranks-3/rank2")
    assert machines.start(1, world=3) == "train-ranks-3/rank1"
    assert machines.start(0, world=3, **late) == "train-ranks-3/rank0", "one goes on"
    machines.end("train-ranks-3/rank1")
    machines.end("train-ranks-3/rank0")
    assert machines.start(3, world=3, **late) == "train-ranks-4/rank3"


def test_a_rank_that_the_run_before_lacks_does_not_join_it(machines):
    assert machines.start(0, **ELASTIC) == "train-torchrun-node17-29500/rank0"
    machines.dead.add("node1-1-7")
    assert machines.start(1, 2, **ELASTIC) == "train-torchrun-node17-29500-2/rank1"
    assert machines.start(0, 2, **ELASTIC) == "train-torchrun-node17-29500-2/rank0"
    for rank in (0, 1):
        machines.end(f"train-torchrun-node17-29500-2/rank{rank}")
    assert machines.start(2, 3, "node2", **ELASTIC) == "train-torchrun-node17-29500-3/rank2"


def attempts(machines, restarts, **options):
    count = {"TORCHELASTIC_RESTART_COUNT": str(restarts), **ELASTIC}
    return [machines.start(rank, **{**count, **options}) for rank in range(2)]


def test_restarts_are_further_attempts_in_the_directory_of_the_job(machines):
    job = "train-torchrun-node17-29500"
    assert attempts(machines, 0) == [f"{job}/rank0", f"{job}/rank1"]
    hours = {"started": STARTED + 9 * WIDE_NS}
    second = attempts(machines, 1, world=4, **hours)
    assert second == [f"{job}/attempt2/rank{n}" for n in (0, 1)]
    marker = json.loads((machines.base / job / "attempt2/job.json").read_text())
    assert (marker["world_size"], marker["anchor"]["place"]) == (4, "node1 boot")
    assert attempts(machines, 2, **hours) == [f"{job}/attempt3/rank{n}" for n in (0, 1)]
    # Of a job of which nothing was recorded before.
    other = attempts(machines, 1, launcher=2, TORCHELASTIC_RUN_ID="x")
    assert other == [f"train-torchrun-x/attempt2/rank{n}" for n in (0, 1)]


def test_an_agent_that_did_not_count_a_restart_of_another_machine_follows_it(machines):
    job, late = "train-torchrun-node17-29500", {"launcher": 5, "host": "node2", **ELASTIC}
    assert machines.start(0, **ELASTIC) == f"{job}/rank0"
    assert machines.start(1, **late) == f"{job}/rank1"
    machines.end(f"{job}/rank1", rank=1)
    assert machines.start(1, **late) == f"{job}/attempt2/rank1"
    assert machines.start(0, TORCHELASTIC_RESTART_COUNT="1", **ELASTIC) == f"{job}/attempt2/rank0"
    # A rank that lives was not restarted: this is a program that it started.
    assert machines.start(1, **late) == f"{job}-2/rank1"


def test_a_requeued_slurm_job_goes_on_beside_its_first_attempt(machines):
    slurm = {"SLURM_JOB_ID": "9", **PORT}
    assert machines.start(0, **slurm) == "train-slurm-9-node17-29500/rank0"
    machines.dead.add("node1-1-7")
    again = {**slurm, "SLURM_RESTART_COUNT": "1", "started": STARTED + 9 * WIDE_NS}
    assert machines.start(0, 4, **again) == "train-slurm-9-node17-29500/attempt2/rank0"


def test_the_directory_that_the_user_named_is_the_job_s_for_all_its_attempts(machines):
    at = machines.base / "mine"

    def join(*args, **options):
        return str(machines.job(*args, **options).join(at).relative_to(at))

    again = {"TORCHELASTIC_RESTART_COUNT": "1", **ELASTIC}
    assert [join(0, **ELASTIC), join(1, 2, "node2", **ELASTIC)] == ["rank0", "rank1"]
    assert [join(0, **again), join(1, 2, "node2", **again)] == ["attempt2/rank0", "attempt2/rank1"]
    machines.dead.add("node1-1-7")
    with pytest.raises(OtherRun):
        join(0, 3, **ELASTIC)
    with pytest.raises(OtherRun):
        join(2, 3, world=3, **ELASTIC)


def test_the_launcher_is_the_first_ancestor_that_is_no_rank_itself():
    print_it = "import os; from overseer.rundir.job import *; print(find_launcher(os.environ))"
    command = f"{sys.executable} -c '{print_it}'"
    environ = {**os.environ, "RANK": "3"}
    names = []
    for wrapped in (command, f'sh -c "{command}"; true'):
        run = ["sh", "-c", f"{wrapped}; true"]
        names.append(subprocess.run(run, env=environ, capture_output=True, text=True).stdout)
    assert names[0] == names[1]
    _, pid, start = names[0].strip().rsplit("-", 2)
    assert (int(pid), int(start) > 0) == (os.getpid(), True)
    assert jobs._alive(names[0].strip()) and not jobs._alive(f"x-{pid}-1")
    assert find_launcher({}).rsplit("-", 2)[1] == str(os.getppid())


# Reading


def put(directory, **facts):
    directory.mkdir(parents=True)
    facts = {"schema": 2, "started": f"{datetime.now(UTC):%FT%T}", "ended": "now", **facts}
    (directory / "run.json").write_text(json.dumps(facts))
    (directory / "metrics.jsonl").touch()


def test_a_job_is_its_latest_attempt_and_has_the_earlier_ones(tmp_path):
    for at, attempt in (("", 1), ("attempt2", 2), ("attempt10", 10)):
        for rank in range(attempt and 2):
            put(tmp_path / at / f"rank{rank}", rank=rank, world_size=2, attempt=attempt)
    run = read_run(tmp_path)
    assert [one.path for one in run.ranks] == [tmp_path / f"attempt10/rank{n}" for n in (0, 1)]
    assert (run.path, run.facts["attempt"]) == (tmp_path, 10)
    assert [one.ranks[1].facts["attempt"] for one in run.attempts] == [1, 2]
    assert [one.path.name for one in run.attempts] == [tmp_path.name, "attempt2"]
    assert read_run(tmp_path / "attempt2").facts["attempt"] == 2


def test_directories_of_machines_without_a_shared_disk_are_read_as_one_job(tmp_path):
    for machine, ranks in (("a", (0, 2)), ("b", (1,))):
        for rank in ranks:
            put(tmp_path / machine / f"rank{rank}", rank=rank, world_size=4)
    put(tmp_path / "b/attempt2/rank1", rank=1, world_size=4, attempt=2)
    put(tmp_path / "a/attempt2/rank0", rank=0, world_size=4, attempt=2)
    run = read_job([tmp_path / "b", tmp_path / "a"])
    assert [one.path for one in run.ranks] == [
        tmp_path / "a/attempt2/rank0", tmp_path / "b/attempt2/rank1",
    ]  # fmt: skip
    assert (run.path, run.missing_ranks) == (tmp_path / "b", [2, 3])
    put(tmp_path / "alone", rank=3, world_size=4, attempt=2)
    assert read_job([tmp_path / "a", tmp_path / "alone"]).missing_ranks == [1, 2]
    with pytest.raises(VoirError, match="are both rank 0"):
        read_job([tmp_path / "a", tmp_path / "a/attempt2/rank0"])
    put(tmp_path / "single")
    with pytest.raises(VoirError, match="no rank"):
        read_job([tmp_path / "a", tmp_path / "single"])
