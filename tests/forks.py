"""Runs commands of voir in forks of one process that has imported torch once.

``python forks.py`` reads jobs as JSON from stdin, each a directory and commands to run there, and
prints for each the exit statuses and what was said.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.running import environment

#: Seconds that all jobs of a call may take together.
PATIENCE = 300


class Job(NamedTuple):
    """Commands to run in a directory, each the arguments of ``voir``.

    Where there is a ``passing.py``, time passes for voir as that says.
    """

    place: str
    commands: list[list[str]]


class Done(NamedTuple):
    """The exit status of each command of a job, and what it said on stdout and stderr."""

    statuses: list[int]
    said: list[str]


def run_all(jobs: list[Job]) -> list[Done]:
    """Run jobs, one after the other, in a process that has torch."""
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tests.forks"],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        cwd=root,
        env=environment({"PYTHONPATH": root, "OMP_NUM_THREADS": "1"}),
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return [Done(*each) for each in json.loads(done.stdout.splitlines()[-1])]


def _in_a_fork(place: str, arguments: list[str]) -> tuple[int, str]:
    output = Path(place) / ".output"
    pid = os.fork()
    if not pid:
        os.chdir(place)
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = 1
        try:
            _let_time_pass(place)
            sys.modules["torch"].manual_seed(0)  # Or a loss goes up, now and then.
            status = _voir(arguments)
        finally:
            sys.stdout.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, output.read_text()


def _let_time_pass(place: str) -> None:
    if (Path(place) / "passing.py").exists():
        sys.path.insert(0, place)
        passing = importlib.import_module("passing")
        sys.path.remove(place)
        time.perf_counter_ns = passing.perf_counter_ns


def _voir(arguments: list[str]) -> int:
    """Run ``voir``; imported here, so that the run belongs to this fork."""
    from overseer.cli import main

    try:
        main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _jobs(jobs: list[Any]) -> list[Done]:
    done = []
    for place, commands in jobs:
        ran = [_in_a_fork(place, arguments) for arguments in commands]
        done.append(Done([status for status, _ in ran], [said for _, said in ran]))
    return done


if __name__ == "__main__":
    import torch
    import torch.utils.data  # noqa: F401

    print(json.dumps(_jobs(json.load(sys.stdin))))
