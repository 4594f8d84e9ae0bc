"""Every rank of a job finds the one directory of its run, without talking to the others."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from overseer.errors import UsageError
from overseer.record.directory import RunDirectory
from overseer.record.job import WINDOW_NS, Rank, find_rank
from tests.running import SCHEMA, VOIR, Place, environment

SECOND = 1_000_000_000
STARTED = 1_767_605_400 * SECOND
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
NODES = {**TORCHRUN, "MASTER_ADDR": "node17", "LOCAL_RANK": "1"}
ID = "TORCHELASTIC_RUN_ID"
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "99", "SLURM_LOCALID": "0"}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}


RESTART = "TORCHELASTIC_RESTART_COUNT"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({**TORCHRUN, ID: "abc"}, Rank(1, 4, None, "torchrun-abc")),
        ({**TORCHRUN, ID: "none"}, Rank(1, 4, None, "torchrun-29500")),
        ({**NODES, ID: "none"}, Rank(1, 4, 1, "torchrun-node17-29500")),
        ({**TORCHRUN, ID: "abc", RESTART: "2"}, Rank(1, 4, None, "torchrun-abc", 2)),
        (TORCHRUN, Rank(1, 4, None, "ranks-29500")),
        ({"RANK": "0"}, Rank(0, None, None, "ranks")),
        ({"RANK": "first"}, None),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, None),
        ({"RANK": "٣"}, None),
        ({**SLURM, "SLURM_STEP_ID": "1"}, Rank(3, 8, 0, "slurm-99.1")),
        ({**SLURM, "SLURM_RESTART_COUNT": "1"}, Rank(3, 8, 0, "slurm-99", 1)),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "4"}, Rank(3, 4, 0, "slurm-99")),
        ({**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "99"}, None),
        ({"SLURM_PROCID": "1", "SLURM_JOB_ID": "99"}, Rank(1, None, None, "slurm-99")),
        ({**MPI, "PMIX_NAMESPACE": "n@1"}, Rank(2, 4, None, "mpi-n@1")),
        ({**SLURM, **MPI}, Rank(2, 4, None, "slurm-99")),
        ({**SLURM, **MPI, **TORCHRUN}, Rank(1, 4, None, "slurm-99")),
    ],
)
def test_the_launchers_environment_tells_rank_and_job(environ, expected):
    assert find_rank(environ) == expected


def rank(tmp_path, problems, number, world=2, started=STARTED, script="train.py", **options):
    environ = {"RANK": str(number), "WORLD_SIZE": str(world), **options.pop("environ", {})}
    return RunDirectory(
        script, 100 + number, started,
        report=problems.append, parent=str(tmp_path), environ=environ, **options,
    )  # fmt: skip


def names(tmp_path, problems, numbers, **options):
    """The directories of the job in which these ranks record, one after the other."""
    paths = [rank(tmp_path, problems, number, **options).path for number in numbers]
    assert [path.name for path in paths] == [f"rank{number}" for number in numbers]
    return [path.parent.name for path in paths]


def test_ranks_share_a_directory_and_the_next_run_has_the_next(tmp_path, problems):
    assert names(tmp_path, problems, [1]) == ["train-ranks"]
    assert names(tmp_path, problems, [0], started=STARTED + 40 * SECOND) == ["train-ranks"]
    assert names(tmp_path, problems, [0, 1]) == ["train-ranks-2"] * 2
    for name in ("train-ranks-7", "train-ranks-x", "train-ranks-8y"):
        (tmp_path / name / "rank0").mkdir(parents=True)
    assert names(tmp_path, problems, [0]) == ["train-ranks-8"]
    assert problems == []


def test_another_world_restart_script_or_time_is_another_run(tmp_path, problems):
    assert names(tmp_path, problems, [0]) == ["train-ranks"]
    assert names(tmp_path, problems, [1], environ={RESTART: "1"}) == ["train-ranks-restart1"]
    assert names(tmp_path, problems, [1], script="eval.py") == ["eval-ranks"]
    assert names(tmp_path, problems, [1], world=4) == ["train-ranks-2"]
    assert names(tmp_path, problems, [1], started=STARTED + WINDOW_NS + 1) == ["train-ranks-3"]


def test_the_directory_the_user_named_is_shared_and_refused_to_the_next_run(tmp_path, problems):
    def named(number, chosen=tmp_path / "mine", **environ):
        run = rank(tmp_path, problems, number, chosen=str(chosen), environ=environ)
        run.check()
        return run

    runs = [named(0), named(1)]
    assert [run.path for run in runs] == [tmp_path / f"mine/rank{n}" for n in (0, 1)]
    with pytest.raises(UsageError) as refused:
        named(0)
    assert refused.value.slug == "run-dir-taken"
    assert named(0, **{RESTART: "1"}).path == tmp_path / "mine-restart1" / "rank0"
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=r"run\.json"):
        named(0, tmp_path)


def test_job_json_says_which_run_it_is_and_has_the_clocks_of_a_machine(tmp_path, problems):
    names(tmp_path, problems, [0, 1])
    marker = json.loads((tmp_path / "train-ranks" / "job.json").read_text())
    anchor = marker.pop("anchor")
    assert marker == {
        "job": "ranks", "script": "train", "world_size": 2, "restart": 0, "started": STARTED,
    }  # fmt: skip
    assert anchor.keys() == {"monotonic", "epoch", "place"}
    assert not list((tmp_path / "train-ranks").glob(".*"))


@pytest.mark.parametrize("damage", [b'{"job": ', b"[]", None])
def test_without_hard_links_or_with_a_damaged_marker_the_ranks_still_meet(
    tmp_path, problems, monkeypatch, damage
):
    def refuse(*args, **kwargs):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    names(tmp_path, problems, [0])
    marker = tmp_path / "train-ranks" / "job.json"
    assert json.loads(marker.read_text())["world_size"] == 2
    if damage is not None:
        marker.write_bytes(damage)
    assert names(tmp_path, problems, [1]) == ["train-ranks"]


def test_a_job_id_of_any_kind_is_a_safe_name(tmp_path, problems):
    environ = {ID: "../../etc/пароль job\n#1"}
    assert names(tmp_path, problems, [0], environ=environ) == ["train-torchrun-..-..-etc-job-1"]


def test_four_processes_at_once_share_one_directory_and_the_next_four_another(tmp_path):
    place = Place(tmp_path)
    place.write("train.py", "import voir\nfor step in range(5): voir.give(step=step, loss=1)\n")
    command = [*VOIR, "--quiet", "--no-monitor", "train.py"]
    for name in ("train-ranks", "train-ranks-2"):
        envs = [environment({"RANK": str(n), "WORLD_SIZE": "4"}) for n in range(4)]
        ranks = [subprocess.Popen(command, cwd=tmp_path, env=env) for env in envs]
        assert [process.wait() for process in ranks] == [0] * 4
        found = [tmp_path / "voir-runs" / name / f"rank{n}" / "run.json" for n in range(4)]
        facts = [json.loads(file.read_text()) for file in found]
        seen = [(each["rank"], each["tasks"]["train"]["steps"]) for each in facts]
        assert seen == [(0, 5), (1, 5), (2, 5), (3, 5)]
        assert len({each["pid"] for each in facts}) == 4


@pytest.mark.slow
def test_torchrun_twice_makes_two_runs_of_two_ranks(tmp_path):
    pytest.importorskip("torch.distributed.run")
    place, env = Place(tmp_path), {"PYTHONPATH": str(SCHEMA.parents[1])}
    place.write("train.py", "import voir\nvoir.give(step=1, loss=1)\n")
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29713"]
    for name in ("train-torchrun-29713", "train-torchrun-29713-2"):
        ran = place.python(*torchrun, "-m", "voir", "--quiet", "train.py", env=env)
        assert ran.status == 0, ran.stderr
        run = tmp_path / "voir-runs" / name
        assert all((run / f"rank{number}" / "run.json").exists() for number in range(2))
