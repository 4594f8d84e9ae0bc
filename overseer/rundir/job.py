"""Finds the rank of this process in its job, and the directory that the job's ranks share.

Ranks start at different times, perhaps on different machines, without communicating. They meet in
the file system:

- The directory is ``<script>-<job>``, then ``<script>-<job>-2`` and so on. A rank tries the
  last existing one, and takes the next if that one is another run's.
- The first rank to arrive creates ``job.json`` atomically: job, world size, start, and its
  machine's clocks, which the traces of ranks there share.
- ``rank<R>`` is created exclusively. An existing one belongs to another run.

One case remains: if a rank recorded nothing, the same rank of a run of the same script and job
within two minutes joins the earlier run's directory. Nothing is overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..clock import time_ns
from ..errors import UsageError
from ..files import is_own, new, read_json
from ..recorder import recorder
from ..recorder.encode import encode

MARKER = "job.json"
#: Longest time between the starts of a job's ranks.
WINDOW_NS = 120 * 1_000_000_000
#: Variables of rank, world size, local rank and restarts. Slurm comes last: launchers in a batch
#: script inherit its variables.
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
_WORLD = tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK"))
OPEN_MPI = (*_WORLD, "SLURM_RESTART_COUNT")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_RESTART_COUNT")
#: torchrun's default run id, and addresses that do not distinguish jobs.
_NO_ID, _LOOPBACK = ("", "none"), ("", "localhost", "127.0.0.1", "::1")
_SAME = ("job", "script", "world_size", "restart")


class OtherRun(Exception):
    """The directory belongs to another run; the message gives the reason."""


class Rank(NamedTuple):
    """One process of a job.

    Attributes:
        rank: Its number, from 0.
        world_size: Count of ranks; ``None`` if the launcher does not provide it.
        local_rank: Its number on its machine; ``None`` if the launcher does not provide it.
        job: A name that all ranks of the job derive; later jobs may reuse it.
        restart: Count of restarts by the launcher; each is a separate run.
    """

    rank: int
    world_size: int | None
    local_rank: int | None
    job: str
    restart: int = 0


def find_rank(environ: Mapping[str, str]) -> Rank | None:
    """The rank of this process; ``None`` outside of torchrun, Open MPI and Slurm."""
    for variables in (TORCHRUN, OPEN_MPI, SLURM):
        rank, world, local, restart = (_number(environ, name) for name in variables)
        if variables is SLURM:  # Every allocation has task numbers: a single task is not a job.
            world = _number(environ, "SLURM_STEP_NUM_TASKS") or world
            if rank == 0 and world in (None, 1):
                return None
        if rank is not None:
            restart = restart or _number(environ, "SLURM_RESTART_COUNT") or 0
            return Rank(rank, world, local, _job(environ, variables), restart)
    return None


def ranks_of(text: str, option: str) -> frozenset[int]:
    """Parse a list of ranks: ``0,3,8-15``.

    Args:
        text: Numbers and ranges, both ends included, separated by commas.
        option: The option, for the message.

    Raises:
        UsageError: The text is no such list (``option-value``).
    """
    found = set[int]()
    for each in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", each, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            what = f"{option} is {text!r:.60}, which is not a list of ranks"
            raise UsageError("option-value", what, f"For example: {option} 0,3,8-15")
        found.update(range(first, last + 1))
    return frozenset(found)


def _job(environ: Mapping[str, str], variables: tuple[str, ...]) -> str:
    """The launcher's or scheduler's id of the job, otherwise its rendezvous address."""
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
    """Finds the directory that the ranks of a job share.

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
        """The directory given by the user, with this restart's suffix."""
        return directory.with_name(self._restarted(directory.name))

    def find(self, base: Path) -> Path:
        """Create this rank's directory in the job's directory below ``base``.

        Raises:
            OSError: It cannot be created.
        """
        base.mkdir(parents=True, exist_ok=True)
        pattern = re.compile(re.escape(self.name) + r"(?:-(\d{1,9}))?\Z")
        found = (pattern.match(name) for name in os.listdir(base))
        number = max((int(match[1] or 1) for match in found if match), default=1)
        while True:
            with suppress(OtherRun):
                return self.join(base / (self.name if number == 1 else f"{self.name}-{number}"))
            number += 1

    def join(self, directory: Path) -> Path:
        """Create this rank's directory in ``directory``.

        Raises:
            OtherRun: The directory is another run's.
            OSError: It cannot be created.
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
            raise OtherRun(f"it holds {own.name} of another run") from None
        return own

    def inspect(self, directory: Path) -> None:
        """Check whether this rank may use ``directory``, which need not exist.

        Raises:
            OtherRun: The directory is another run's.
        """
        own = directory / f"rank{self.rank.rank}"
        if directory.exists() and not is_own(directory):
            raise OtherRun("it belongs to another user")
        if (directory / "run.json").exists():
            raise OtherRun("it holds the run.json of a run in one process")
        if own.exists():
            raise OtherRun(f"it holds {own.name} of another run")
        try:
            marker = read_json(directory / MARKER)
            same = all(marker.get(key) == self.identity[key] for key in _SAME)
            near = abs(self.started - marker["started"]) <= WINDOW_NS
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return  # Missing; or being written on a file system without hard links.
        if not (same and near):
            raise OtherRun(f"its {MARKER} is another run's")

    def _restarted(self, name: str) -> str:
        return f"{name}-restart{self.rank.restart}" if self.rank.restart else name


def place() -> str:
    """Identify this machine since its boot: monotonic clocks are comparable within it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename} {boot}".strip()


def _publish(path: Path, content: bytes) -> None:
    """Create ``path`` with ``content`` atomically, unless it exists."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    with os.fdopen(new(draft), "wb") as file:
        file.write(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # No hard links: FAT, some network file systems.
        with suppress(FileExistsError), os.fdopen(new(path), "wb") as file:
            file.write(content)
    finally:
        with suppress(OSError):
            draft.unlink()
