"""The rank of this process in its job, and the one directory that all ranks of the job share.

Ranks start in different seconds, perhaps on different machines, and do not talk to one another. So
they meet in the file system:

- The directory is ``<script>-<job>``, then ``<script>-<job>-2`` and so on. A rank looks at the last
  one there is, and takes the next when that one is not its own run's.
- The first to arrive leaves ``job.json``, made whole or not at all: the job, the world size, when
  it started, and the clocks of its machine, so that traces of ranks on it have one time.
- ``rank<R>`` is made exclusively. One that exists belongs to another run, whatever else agrees.

What remains: within two minutes of a run in which this very rank recorded nothing, the rank of the
next run of the same script and job is put with that one. Nothing is overwritten in any case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..clock import time_ns
from ..files import is_own, new, read_json
from ..recorder import recorder
from ..recorder.encode import encode

MARKER = "job.json"
#: How far apart the ranks of one job may start.
WINDOW_NS = 120 * 1_000_000_000
#: Variables of a rank, the world's size, the rank on its machine, and restarts; Slurm comes last:
#: what its batch script has is inherited by whatever is launched there.
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
_WORLD = tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK"))
OPEN_MPI = (*_WORLD, "SLURM_RESTART_COUNT")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_RESTART_COUNT")
#: What torchrun gives as the run id when it was given none; addresses that tell no jobs apart.
_NO_ID, _LOOPBACK = ("", "none"), ("", "localhost", "127.0.0.1", "::1")
_SAME = ("job", "script", "world_size", "restart")


class NotOurs(Exception):
    """The directory belongs to another run; the message says how one can tell."""


class Rank(NamedTuple):
    """One process of a job.

    Attributes:
        rank: Its number, from 0.
        world_size: How many there are; ``None`` when the launcher does not say.
        local_rank: Its number on its machine; ``None`` when the launcher does not say.
        job: A name that all ranks of the job derive alike; not unique in time.
        restart: How often the launcher has started the job anew; each time is a run of its own.
    """

    rank: int
    world_size: int | None
    local_rank: int | None
    job: str
    restart: int = 0


def find_rank(environ: Mapping[str, str]) -> Rank | None:
    """The rank of this process, or ``None`` outside of torchrun, Open MPI and Slurm."""
    for variables in (TORCHRUN, OPEN_MPI, SLURM):
        rank, world, local, restart = (_number(environ, name) for name in variables)
        if variables is SLURM:  # It numbers tasks in every allocation: one alone is no job.
            world = _number(environ, "SLURM_STEP_NUM_TASKS") or world
            if rank == 0 and world in (None, 1):
                return None
        if rank is not None:
            restart = restart or _number(environ, "SLURM_RESTART_COUNT") or 0
            return Rank(rank, world, local, _job(environ, variables), restart)
    return None


def _job(environ: Mapping[str, str], variables: tuple[str, ...]) -> str:
    """The launcher's or the scheduler's id for the job, else where its ranks meet."""
    job, step = environ.get("SLURM_JOB_ID"), environ.get("SLURM_STEP_ID")
    slurm = f"slurm-{job}" + (f".{step}" if step else "") if job else ""
    if variables is SLURM:
        return slurm or "slurm"
    if variables is OPEN_MPI:
        name = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid")
        return f"mpi-{name}" if name else slurm or "mpi"
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    if run not in _NO_ID:
        return f"torchrun-{run}"
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    where = [each for each in (address, port) if each not in _LOOPBACK]
    return slurm or "-".join(["torchrun" if run else "ranks", *where])


def _number(environ: Mapping[str, str], variable: str) -> int | None:
    text = environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class Job:
    """A rank's view of its job: which directory all ranks share.

    Args:
        rank: This process.
        script: The script's safe name.
        started: Wall time at the start of this process, in nanoseconds.
    """

    def __init__(self, rank: Rank, script: str, started: int) -> None:
        self.rank, self.started = rank, started
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", rank.job).strip("-._")[:64] or "job"
        self.name = self._restarted(f"{script}-{safe}")
        self.identity: dict[str, object] = {
            "job": rank.job,
            "script": script,
            "world_size": rank.world_size,
            "restart": rank.restart,
            "started": started,
        }

    def chosen(self, directory: Path) -> Path:
        """The directory the user named, or its namesake for this restart of the job."""
        return directory.with_name(self._restarted(directory.name))

    def find(self, base: Path) -> Path:
        """This rank's own directory, new, in the directory of this job below ``base``.

        Raises:
            OSError: It cannot be made.
        """
        base.mkdir(parents=True, exist_ok=True)
        pattern = re.compile(re.escape(self.name) + r"(?:-(\d{1,9}))?\Z")
        found = (pattern.match(name) for name in os.listdir(base))
        number = max((int(match[1] or 1) for match in found if match), default=1)
        while True:
            with suppress(NotOurs):
                return self.join(base / (self.name if number == 1 else f"{self.name}-{number}"))
            number += 1

    def join(self, directory: Path) -> Path:
        """This rank's own directory, new, in ``directory``.

        Raises:
            NotOurs: The directory is another run's.
            OSError: It cannot be made.
        """
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / MARKER).exists():
            anchor = {"monotonic": recorder.now(), "epoch": time_ns(), "place": place()}
            _publish(directory / MARKER, encode({**self.identity, "anchor": anchor}))
        self.inspect(directory)
        own = directory / f"rank{self.rank.rank}"
        try:
            own.mkdir()
        except FileExistsError:
            raise NotOurs(f"it holds {own.name} of another run") from None
        return own

    def inspect(self, directory: Path) -> None:
        """See whether this rank may join what is in ``directory``, which need not exist.

        Raises:
            NotOurs: The directory is another run's.
        """
        own = directory / f"rank{self.rank.rank}"
        if directory.exists() and not is_own(directory):
            raise NotOurs("it belongs to another user")
        if (directory / "run.json").exists():
            raise NotOurs("it holds the run.json of a run in one process")
        if own.exists():
            raise NotOurs(f"it holds {own.name} of another run")
        try:
            marker = read_json(directory / MARKER)
            same = all(marker.get(key) == self.identity[key] for key in _SAME)
            near = abs(self.started - marker["started"]) <= WINDOW_NS
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return  # There is none; or it is being written, where links are not to be had.
        if not (same and near):
            raise NotOurs(f"its {MARKER} is another run's")

    def _restarted(self, name: str) -> str:
        return f"{name}-restart{self.rank.restart}" if self.rank.restart else name


def place() -> str:
    """This machine since its start: within one, monotonic clocks can be compared."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename} {boot}".strip()


def _publish(path: Path, content: bytes) -> None:
    """Make ``path`` with ``content``, whole, unless it exists."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    with os.fdopen(new(draft), "wb") as file:
        file.write(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # No hard links here, as on FAT and some network file systems.
        with suppress(FileExistsError), os.fdopen(new(path), "wb") as file:
            file.write(content)
    finally:
        with suppress(OSError):
            draft.unlink()
