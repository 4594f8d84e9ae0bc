"""Where a run is recorded: never a directory that exists, but the one of all ranks of its job."""

from __future__ import annotations

import errno
import json
import os
import subprocess

import pytest

from overseer.errors import UsageError
from overseer.rundir import directory as directories
from overseer.rundir import job as jobs
from overseer.rundir.directory import RunDirectory, safe_name
from overseer.rundir.job import WIDE_NS, WINDOW_NS, Rank, find_rank
from tests.running import SCHEMA, VOIR, Place, environment

STARTED = 1_767_605_400_123_456_789  # 2026-01-05 09:30:00 UTC
NAME = "20260105T093000-main-4711"


def directory(tmp_path, problems, script="a/main.py", started=STARTED, **options):
    options = {"parent": str(tmp_path / "voir-runs"), "environ": {}, **options}
    return RunDirectory(script, 4711, started, report=problems.append, **options)


def test_it_is_made_when_asked_for_and_named_after_time_script_and_process(tmp_path, problems):
    told = []
    run = directory(tmp_path, problems, made=lambda: told.append(run.made))
    run.check()
    assert (run.made, list(tmp_path.iterdir())) == (False, [])
    assert run.path == tmp_path / "voir-runs" / NAME
    assert (run.made, told, problems) == (True, [True], [])
    # In containers every run may be process 1.
    assert [directory(tmp_path, problems).path.name for _ in range(2)] == [f"{NAME}-2", f"{NAME}-3"]


def test_the_one_the_user_named_may_hold_other_things(tmp_path, problems):
    (tmp_path / "notes.txt").write_text("mine")
    run = directory(tmp_path, problems, chosen=str(tmp_path))
    run.check()
    assert (run.path, problems) == (tmp_path, [])
    assert {file.name for file in tmp_path.iterdir()} == {"notes.txt", "metrics.jsonl"}


def test_no_record_makes_no_directory_and_refuses_none(tmp_path, problems):
    (tmp_path / "run.json").touch()
    run = directory(tmp_path, problems, chosen=str(tmp_path), enabled=False)
    run.check()
    assert (run.path, problems) == (None, [])
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


HOLDING = ["run.json", "metrics.jsonl", "trace.pftrace", "job.json", "rank0"]


@pytest.mark.parametrize("held", HOLDING)
def test_one_that_holds_a_run_is_refused_before_the_script_runs(tmp_path, problems, held):
    (tmp_path / held).touch()
    with pytest.raises(UsageError, match=held) as refused:
        directory(tmp_path, problems, chosen=str(tmp_path)).check()
    assert refused.value.slug == "run-dir-taken"
    assert (tmp_path / held).read_bytes() == b""
    with pytest.raises(UsageError) as refused:
        directory(tmp_path, problems, chosen=str(tmp_path / held)).check()
    assert refused.value.slug == "run-dir-not-a-directory"


def test_of_two_runs_that_were_given_one_the_second_is_told(tmp_path, problems):
    first, second = (directory(tmp_path, problems, chosen=str(tmp_path / "x")) for _ in range(2))
    first.check()
    second.check()
    assert (first.path, second.path, second.path) == (tmp_path / "x", None, None)
    assert ["taken" in p.what or "holds" in p.what for p in problems] == [True]
    with pytest.raises(FileExistsError):
        directories.claim(tmp_path / "x")


@pytest.mark.parametrize("options", [{"parent": ""}, {"chosen": "/dev/null/x"}, {"chosen": "/\0"}])
def test_where_none_can_be_made_that_is_told_once(tmp_path, problems, options):
    run = directory(tmp_path, problems, **options)
    run.check()
    assert (run.path, run.path, run.made) == (None, None, False)
    assert [problem.slug for problem in problems] == ["record-unwritable"]


def refuse(number):
    def refusing(*args, **more):
        raise OSError(number, os.strerror(number))

    return refusing


def test_without_descriptors_it_is_tried_again(tmp_path, problems, monkeypatch):
    run = directory(tmp_path, problems)
    with monkeypatch.context() as patched:
        patched.setattr(directories, "claim", refuse(errno.EMFILE))
        assert run.path is None
    assert run.path is not None
    assert len(problems) == 1


NAMES = {
    "train.py": "train", "pkg/__main__.py": "pkg", "-m package.module": "package.module",
    "-m package:function": "package-function", "../../etc/passwd": "passwd",
    "träning é.py": "traning-e", "-": "script", "": "script", "пароль.py": "script",
    "a" * 300: "a" * 48, "..": "script", "a\0b\n.pyz": "a-b",
}  # fmt: skip


def test_a_script_of_any_name_makes_a_safe_one():
    assert {script: safe_name(script) for script in NAMES} == NAMES


# Ranks of a job

RESTART, ID = "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
NODES = {**TORCHRUN, "MASTER_ADDR": "node17", "LOCAL_RANK": "1"}
ONE = {"SLURM_PROCID": "1", "SLURM_JOB_ID": "99"}
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "99", "SLURM_LOCALID": "0"}
#: A batch script's own process; a task that srun starts there; one of Intel MPI or MPICH.
BATCH = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "99", "SLURM_LOCALID": "0"}
STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
HYDRA = {"PMI_RANK": "2", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({**TORCHRUN, ID: "abc"}, (1, 4, None, "torchrun-abc", 0, "29500", True, True)),
        ({**TORCHRUN, ID: "none"}, (1, 4, None, "torchrun-29500", 0, "29500", True, True)),
        (
            {**NODES, ID: "none"},
            (1, 4, 1, "torchrun-node17-29500", 0, "node17-29500", True, True),
        ),
        (
            {**TORCHRUN, ID: "abc", RESTART: "2"},
            (1, 4, None, "torchrun-abc", 2, "29500", True, True),
        ),
        (TORCHRUN, (1, 4, None, "ranks-29500", 0, "29500", True, False)),
        ({**TORCHRUN, "MASTER_PORT": "0"}, (1, 4, None, "ranks")),
        ({"RANK": "0"}, (0, None, None, "ranks")),
        *(({"RANK": rank, "WORLD_SIZE": "2"}, None) for rank in ("first", "-1", "٣")),
        ({**SLURM, "SLURM_STEP_ID": "1"}, (3, 8, 0, "slurm-99.1", 0, "", True)),
        ({**SLURM, "SLURM_RESTART_COUNT": "1"}, (3, 8, 0, "slurm-99", 1, "", True)),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "4"}, (3, 4, 0, "slurm-99", 0, "", True)),
        ({**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),
        ({**BATCH, "SLURM_NTASKS": "4"}, None),
        ({**BATCH, **STEP}, (0, 4, 0, "slurm-99.0", 0, "", True)),
        ({**BATCH, **STEP, "SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0"}, None),
        ({**BATCH, **STEP, "PMIX_RANK": "0"}, (0, 4, 0, "slurm-99.0", 0, "", True)),
        ({**BATCH, **HYDRA}, (2, 8, 1, "slurm-99", 0, "", True)),
        ({**BATCH, **STEP, **HYDRA}, (2, 8, 1, "slurm-99.0", 0, "", True)),
        ({**HYDRA, "PMI_JOBID": "7"}, (2, 8, 1, "mpi-7", 0, "", True)),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, None),
        ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "n@1"}, (1, None, None, "mpi-n@1", 0, "", True)),
        ({**ONE, "SLURM_PROCID": "0"}, None),
        (ONE, (1, None, None, "slurm-99", 0, "", True)),
        ({**MPI, "PMIX_NAMESPACE": "n@1"}, (2, 4, None, "mpi-n@1", 0, "", True)),
        ({**SLURM, **MPI}, (2, 4, None, "slurm-99", 0, "", True)),
        ({**SLURM, **MPI, **TORCHRUN}, (1, 4, None, "slurm-99-29500", 0, "29500", True)),
    ],
)
def test_the_launchers_environment_tells_rank_and_job(environ, expected):
    assert find_rank(environ) == (expected and Rank(*expected))


@pytest.fixture
def rank(tmp_path, problems):
    """Makes ranks of jobs; none of them may have a problem."""

    def make(number, world=2, environ=None, script="train.py", **options):
        variables = {"RANK": str(number), "WORLD_SIZE": str(world), **(environ or {})}
        options = {"parent": str(tmp_path), "script": script, "environ": variables, **options}
        return directory(tmp_path, problems, **options)

    yield make
    assert problems == []


def where(run):
    return f"{run.path.parent.name}/{run.path.name}"


def test_ranks_share_a_directory_and_another_run_has_the_next(tmp_path, rank):
    later = STARTED + WINDOW_NS
    assert where(rank(1)) == "train-ranks/rank1"
    assert where(rank(0, started=later)) == "train-ranks/rank0"
    assert [where(rank(n)) for n in (0, 1)] == ["train-ranks-2/rank0", "train-ranks-2/rank1"]
    for name in ("train-ranks-7", "train-ranks-x", "train-ranks-8y"):
        (tmp_path / name / "rank0").mkdir(parents=True)
    assert where(rank(0)) == "train-ranks-8/rank0"
    assert where(rank(1, environ={RESTART: "1"})) == "attempt2/rank1"
    assert where(rank(1, script="eval.py")) == "eval-ranks/rank1"
    assert where(rank(1, world=4)) == "train-ranks-9/rank1"
    assert where(rank(0, world=4, started=STARTED + WIDE_NS + 1)) == "train-ranks-10/rank0"
    job = {ID: "../../etc/пароль job\n#1"}
    assert where(rank(0, environ=job)) == "train-torchrun-..-..-etc-job-1/rank0"


def test_the_directory_the_user_named_is_shared_and_refused_to_the_next_run(tmp_path, rank):
    def named(number, name="mine", **environ):
        run = rank(number, chosen=str(tmp_path / name), environ=environ)
        run.check()
        return run

    runs = [named(0), named(1)]
    assert [where(run) for run in runs] == ["mine/rank0", "mine/rank1"]
    with pytest.raises(UsageError) as refused:
        named(0)
    assert refused.value.slug == "run-dir-taken"
    assert where(named(0, **{RESTART: "1"})) == "attempt2/rank0"
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=r"run\.json"):
        named(0, "")


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("damage", [b'{"job": ', b"[]", None])
def test_job_json_tells_which_run_it_is_but_ranks_meet_without_it(
    tmp_path, rank, monkeypatch, links, damage
):
    if not links:
        monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    assert where(rank(0)) == "train-ranks/rank0"
    file = tmp_path / "train-ranks" / "job.json"
    marker = json.loads(file.read_text())
    assert marker.pop("anchor").keys() == {"monotonic", "epoch", "place"}, "its machine's clocks"
    assert marker == {
        "job": "ranks", "script": "train", "world_size": 2, "rendezvous": "", "started": STARTED,
        "launcher": jobs.find_launcher({}),
    }  # fmt: skip
    if damage is not None:
        file.write_bytes(damage)
    assert where(rank(1)) == "train-ranks/rank1"
    assert not list(file.parent.glob(".*"))


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
