"""Every rank of a job finds the one directory of its run, without talking to the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from overseer.errors import UsageError
from overseer.record import job as jobs
from overseer.record.directory import RunDirectory
from overseer.record.ranks import Rank, find_rank, launcher

LAUNCHING = str(Path(__file__).with_name("launching.py"))
ROOT = Path(__file__).parents[2]
SECOND = 1_000_000_000
STARTED = 1_767_605_400 * SECOND

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
NODES = {**TORCHRUN, "MASTER_ADDR": "node17"}
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "99"}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "abc"}, Rank(1, 4, "torchrun-abc", "RANK")),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, Rank(1, 4, "torchrun", "RANK")),
        ({**NODES, "TORCHELASTIC_RUN_ID": "none"}, Rank(1, 4, "torchrun-node17-29500", "RANK")),
        (
            {**TORCHRUN, "TORCHELASTIC_RUN_ID": "abc", "TORCHELASTIC_RESTART_COUNT": "2"},
            Rank(1, 4, "torchrun-abc", "RANK", 2),
        ),
        (TORCHRUN, Rank(1, 4, "ranks", "RANK")),
        ({"RANK": "0"}, Rank(0, None, "ranks", "RANK")),
        ({"RANK": "first"}, None),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, None),
        ({"RANK": "٣"}, None),
        ({**SLURM, "SLURM_STEP_ID": "1"}, Rank(3, 8, "slurm-99.1", "SLURM_PROCID")),
        ({**SLURM, "SLURM_RESTART_COUNT": "1"}, Rank(3, 8, "slurm-99", "SLURM_PROCID", 1)),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "4"}, Rank(3, 4, "slurm-99", "SLURM_PROCID")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "99"}, None),
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "99"}, None),
        ({"SLURM_PROCID": "1", "SLURM_JOB_ID": "99"}, Rank(1, None, "slurm-99", "SLURM_PROCID")),
        ({**MPI, "PMIX_NAMESPACE": "n@1"}, Rank(2, 4, "mpi-n@1", "OMPI_COMM_WORLD_RANK")),
        ({**SLURM, **MPI}, Rank(2, 4, "slurm-99", "OMPI_COMM_WORLD_RANK")),
        ({**SLURM, **MPI, **TORCHRUN}, Rank(1, 4, "slurm-99", "RANK")),
    ],
)
def test_the_launchers_environment_tells_rank_and_job(environ, expected):
    assert find_rank(environ) == expected


@pytest.fixture
def elsewhere(monkeypatch):
    """Make the next ranks seem to be on another machine, or under another launcher."""

    def move(place="here", started_by="1 100"):
        monkeypatch.setattr(jobs, "place", lambda: place)
        monkeypatch.setattr(jobs, "launcher", lambda variable: started_by)

    move()
    return move


def rank(tmp_path, problems, number, world=2, started=STARTED, script="train.py", **options):
    environ = {"RANK": str(number), "WORLD_SIZE": str(world), **options.pop("environ", {})}
    return RunDirectory(
        script,
        100 + number,
        started,
        report=problems.append,
        base=tmp_path,
        environ=environ,
        **options,
    )


def test_ranks_started_in_different_seconds_share_one_directory(tmp_path, problems, elsewhere):
    paths = [rank(tmp_path, problems, n, started=STARTED + n * SECOND).path for n in (1, 0)]
    assert paths == [tmp_path / "train-ranks" / "rank1", tmp_path / "train-ranks" / "rank0"]
    assert problems == []


def test_ranks_on_another_machine_share_it_too(tmp_path, problems, elsewhere):
    first = rank(tmp_path, problems, 0).path
    elsewhere("another machine", "7 700")
    second = rank(tmp_path, problems, 1, started=STARTED + 40 * SECOND).path
    assert first.parent == second.parent


def test_the_next_run_of_a_job_without_an_id_gets_its_own(tmp_path, problems, elsewhere):
    runs = []
    for launched in ("1 100", "1 200", "1 300"):
        elsewhere(started_by=launched)
        runs.append([rank(tmp_path, problems, n).path for n in (0, 1)])
    assert [{path.parent.name for path in run} for run in runs] == [
        {"train-ranks"},
        {"train-ranks-2"},
        {"train-ranks-3"},
    ]


def test_numbers_go_on_from_the_last_one_so_that_they_tell_the_order(tmp_path, problems, elsewhere):
    for name in ("train-ranks-2", "train-ranks-7", "train-ranks-x", "train-ranks-8y"):
        (tmp_path / name / "rank0").mkdir(parents=True)
    assert rank(tmp_path, problems, 0).path.parent == tmp_path / "train-ranks-8"


def test_a_rank_missing_from_the_last_run_does_not_end_up_there(tmp_path, problems, elsewhere):
    old = rank(tmp_path, problems, 0).path
    elsewhere(started_by="1 200")
    new = [rank(tmp_path, problems, n).path for n in (1, 0)]
    assert {path.parent for path in new} == {tmp_path / "train-ranks-2"}
    assert old.parent == tmp_path / "train-ranks"


def test_on_another_machine_an_old_run_is_told_by_its_time(tmp_path, problems, elsewhere):
    rank(tmp_path, problems, 0)
    elsewhere("another machine", "7 700")
    late = rank(tmp_path, problems, 1, started=STARTED + 3600 * SECOND).path
    assert late.parent == tmp_path / "train-ranks"
    elsewhere()
    assert rank(tmp_path, problems, 0).path.parent == tmp_path / "train-ranks-2"


def test_ranks_started_from_one_shell_twice_make_two_runs(tmp_path, problems, elsewhere):
    first = [rank(tmp_path, problems, n).path.parent.name for n in (0, 1)]
    again = [
        rank(tmp_path, problems, n, started=STARTED + 9 * SECOND).path.parent.name for n in (1, 0)
    ]
    assert first == ["train-ranks"] * 2
    assert again == ["train-ranks-2"] * 2


@pytest.mark.parametrize(
    "changed", [{"world": 4}, {"environ": {"TORCHELASTIC_RESTART_COUNT": "1"}}]
)
def test_another_world_or_a_restart_is_another_run(tmp_path, problems, elsewhere, changed):
    first = rank(tmp_path, problems, 0).path
    other = rank(tmp_path, problems, 1, **changed).path
    assert first.parent != other.parent


def test_another_script_of_the_same_job_is_another_run(tmp_path, problems, elsewhere):
    first = rank(tmp_path, problems, 0).path
    assert rank(tmp_path, problems, 1, script="eval.py").path.parent != first.parent


def test_all_ranks_share_the_directory_the_user_named(tmp_path, problems, elsewhere):
    chosen = tmp_path / "mine"
    runs = [rank(tmp_path, problems, n, run_dir=chosen) for n in (0, 1)]
    for run in runs:
        run.check()
    assert [run.path for run in runs] == [chosen / "rank0", chosen / "rank1"]


def test_a_named_directory_of_an_earlier_job_is_refused(tmp_path, problems, elsewhere):
    chosen = tmp_path / "mine"
    assert rank(tmp_path, problems, 0, run_dir=chosen).path
    elsewhere(started_by="1 200")
    for number in (0, 1):
        with pytest.raises(UsageError) as refused:
            rank(tmp_path, problems, number, run_dir=chosen).check()
        assert refused.value.slug == "run-dir-taken"


def test_a_run_of_one_process_is_not_joined(tmp_path, problems, elsewhere):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=r"run\.json"):
        rank(tmp_path, problems, 0, run_dir=tmp_path).check()


def test_a_restarted_job_records_beside_the_directory_the_user_named(tmp_path, problems, elsewhere):
    chosen = tmp_path / "mine"
    assert rank(tmp_path, problems, 0, run_dir=chosen).path == chosen / "rank0"
    again = rank(tmp_path, problems, 0, run_dir=chosen, environ={"TORCHELASTIC_RESTART_COUNT": "1"})
    again.check()
    assert again.path == tmp_path / "mine-restart1" / "rank0"


def test_without_hard_links_the_ranks_still_meet(tmp_path, problems, elsewhere, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    paths = [rank(tmp_path, problems, n).path for n in (0, 1)]
    assert {path.parent for path in paths} == {tmp_path / "train-ranks"}
    assert json.loads((tmp_path / "train-ranks" / "job.json").read_text())["world_size"] == 2


def test_a_damaged_marker_does_not_stop_a_rank(tmp_path, problems, elsewhere):
    first = rank(tmp_path, problems, 0).path
    (first.parent / "job.json").write_bytes(b'{"job": ')
    assert rank(tmp_path, problems, 1).path == first.parent / "rank1"


def test_a_job_id_of_any_kind_is_a_safe_name(tmp_path, problems, elsewhere):
    environ = {"TORCHELASTIC_RUN_ID": "../../etc/пароль job\n#1"}
    path = rank(tmp_path, problems, 0, environ=environ).path
    assert path.parent.parent == tmp_path
    assert path.parent.name.isascii()


def environment(**extra: str) -> dict[str, str]:
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD", "SLURM", "OMPI"))
    }
    return {**kept, "PYTHONPATH": str(ROOT), **extra}


def launched(cwd: Path, command: list[str], **extra: str) -> list[Path]:
    """The directories that the ranks printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return sorted(Path(line) for line in done.stdout.split())


RANK = [sys.executable, LAUNCHING]
RANKS = [sys.executable, LAUNCHING, "launch"]


def test_four_processes_at_once_share_one_directory_and_the_next_four_another(tmp_path):
    for name in ("train-ranks", "train-ranks-2"):
        paths = launched(tmp_path, [*RANKS, "4", *RANK])
        assert paths == [tmp_path / "voir-runs" / name / f"rank{n}" for n in range(4)]
        pids = {(path / "metrics.jsonl").read_text() for path in paths}
        assert len(pids) == 4
    assert not list((tmp_path / "voir-runs").glob("*/.job*"))


def test_ranks_that_each_run_in_a_shell_of_their_own_share_one(tmp_path):
    shell = ["sh", "-c", f"{sys.executable} {LAUNCHING}; true"]
    paths = launched(tmp_path, [*RANKS, "2", *shell])
    assert paths == [tmp_path / "voir-runs" / "train-ranks" / f"rank{n}" for n in range(2)]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_launcher_is_the_nearest_ancestor_that_is_no_rank(tmp_path):
    code = "from overseer.record.ranks import launcher; print(launcher('RANK'))"
    shell = ["sh", "-c", f'{sys.executable} -c "{code}" | tr " " "/"; true']
    found = launched(tmp_path, [*RANKS, "2", *shell])
    assert found[0] == found[1]
    assert launcher("A_VARIABLE_THAT_NOBODY_HAS").split()[0] == str(os.getppid())


@pytest.mark.slow
def test_torchrun_twice_makes_two_runs_of_two_ranks(tmp_path):
    pytest.importorskip("torch.distributed.run")
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--master-port=29713",
    ]
    for name in ("train-torchrun", "train-torchrun-2"):
        done = subprocess.run(
            [*torchrun, LAUNCHING], cwd=tmp_path, env=environment(OMP_NUM_THREADS="1"),
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        paths = sorted(Path(line) for line in done.stdout.split())
        assert paths == [tmp_path / "voir-runs" / name / f"rank{n}" for n in range(2)]
