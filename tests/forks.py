"""Runs commands of voir in directories, each in a fork of one process that has imported torch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.running import Place


class Job(NamedTuple):
    """Commands to run in a directory, each the arguments of ``voir``."""

    place: str
    commands: list[list[str]]


class Done(NamedTuple):
    """The exit status of each command of a job, and what it said on stdout and stderr."""

    statuses: list[int]
    said: list[str]


def run_all(jobs: list[Job]) -> list[Done]:
    """Run jobs, one after the other."""
    done = []
    for place, commands in jobs:
        ran = [Place(Path(place)).voir(*arguments, warm=True) for arguments in commands]
        done.append(Done([one.status for one in ran], [one.stdout + one.stderr for one in ran]))
    return done
