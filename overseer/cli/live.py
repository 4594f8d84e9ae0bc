"""Finds live runs, and their processes, for the commands that look at them or ask something."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import UsageError, VoirError
from ..recorder.log import published
from ..rundir.control import ask
from ..rundir.killed import has_ended
from ..rundir.reading import Run, read_run
from .runs import is_run, newest, run_directory

LIVE_HELP = "a run directory, a --name or --tag (default: the live run in voir-runs)"
#: Runs of a directory that are looked at, of perhaps thousands.
RECENT = 50
#: Directories of a job's processes.
_PROCESS = re.compile(r"(rank|process|attempt)\d+")


def live_runs() -> list[Path]:
    """The runs that are running in the directory of runs, newest first.

    Of the runs of other machines, those among the latest ``RECENT``.
    """
    with suppress(VoirError):
        here, every = _shared(), newest()
        looked = [*every[:RECENT], *(each for each in every[RECENT:] if each.absolute() in here)]
        return [each for each in looked if not over(each)]
    return []


def _shared() -> set[Path]:
    """Runs of this machine that are running."""
    return {_of_job(Path(each)) for each in published()}


def all_live_runs() -> list[Path]:
    """All runs of this user on this machine that are running, newest first."""
    found = _shared() | {path.absolute() for path in live_runs()}
    return sorted(found, key=_started, reverse=True)


def over(path: Path) -> bool:
    """Whether no process of a run or job is running any more, as far as this machine can tell."""
    try:
        return not live_processes(read_run(path))
    except VoirError:
        return True


def live_processes(run: Run) -> list[Path]:
    """The directories of a run's processes that have not ended."""
    every = [*(run.ranks or (run,)), *([run.starter] if run.starter else [])]
    return [each.path for each in every if not has_ended(each.path)]


def live_run(named: str | None) -> Path:
    """The run that a command line names, or else the only one of the directory of runs.

    Raises:
        VoirError: There is no such run; none is running, or several are.
    """
    if named is not None:
        return run_directory(named)
    found = live_runs()
    if len(found) == 1:
        return found[0]
    where = os.environ.get("VOIR_RUN_DIR") or "voir-runs"
    if not found:
        others = all_live_runs()
        remedy = f"Elsewhere there is: {listed(others)}" if others else "Start one."
        raise VoirError("run-missing", f"no run is running in {where}", remedy)
    raise UsageError(
        "usage", f"{len(found)} runs are running in {where}", f"Name one: {listed(found)}"
    )


def listed(paths: Sequence[Path]) -> str:
    """Paths as they are typed, from the current directory."""
    return "  ".join(map(short, paths))


def short(path: Path) -> str:
    """A path from the current directory, if that is shorter."""
    with suppress(OSError, ValueError):
        return min(os.path.relpath(path), str(path), key=len)
    return str(path)


def live_job(named: str | None) -> tuple[Path, list[Path]]:
    """The run that a command line names, as :func:`live_run`, and its live processes.

    Raises:
        VoirError: There is no such run; or it has ended (``no-answer``).
    """
    path = live_run(named)
    live = live_processes(read_run(path))
    if not live:
        remedy = "voir show RUN has its last figures."
        raise VoirError("no-answer", f"{short(path)}: it has ended", remedy)
    return path, live


def request(processes: Sequence[Path], word: int, value: int) -> None:
    """Ask something of the processes of a live run.

    Raises:
        VoirError: One of them has not done it (``no-answer``).
    """
    for directory, why in ask(processes, word, value).items():
        raise VoirError("no-answer", f"{short(directory)}: {why}", "See voir watch for its state.")


def _of_job(path: Path) -> Path:
    while _PROCESS.fullmatch(path.name) and is_run(path.parent):
        path = path.parent
    return path


def _started(path: Path) -> float:
    with suppress(VoirError):
        return read_run(path).began or 0.0
    return 0.0
