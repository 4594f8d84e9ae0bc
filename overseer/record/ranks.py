"""Which rank of which job this process is, from what its launcher left in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: What torchrun gives as the run id when it was given none.
_NO_ID = ("", "none")
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")


class Rank(NamedTuple):
    """One process of a job.

    Attributes:
        rank: Its number, from 0.
        world_size: How many there are; ``None`` when the launcher does not say.
        job: A name that all ranks of the job derive alike; not unique in time.
        variable: The environment variable that told.
        restart: How often the launcher has started the job anew; each time is a run of its own.
    """

    rank: int
    world_size: int | None
    job: str
    variable: str
    restart: int = 0


def find_rank(environ: Mapping[str, str]) -> Rank | None:
    """The rank of this process, or ``None`` outside of torchrun, Open MPI and Slurm.

    Slurm comes last: its ``SLURM_PROCID`` of the batch script is inherited by whatever is launched
    there. It sets that in every allocation, so a Slurm world of one is an ordinary run.
    """
    return _torchrun(environ) or _open_mpi(environ) or _slurm(environ)


def _torchrun(environ: Mapping[str, str]) -> Rank | None:
    rank = _number(environ, "RANK")
    if rank is None:
        return None
    run_id = environ.get("TORCHELASTIC_RUN_ID", "")
    if run_id not in _NO_ID:
        name = f"torchrun-{run_id}"
    else:
        name = _slurm_job(environ) or ("torchrun" if run_id else "ranks") + _master(environ)
    restart = _number(environ, "TORCHELASTIC_RESTART_COUNT") or _requeued(environ)
    return Rank(rank, _number(environ, "WORLD_SIZE"), name, "RANK", restart)


def _master(environ: Mapping[str, str]) -> str:
    # Tells apart two jobs without an id that run at once on several machines.
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    return "" if address in _LOOPBACK else f"-{address}-{port}"


def _open_mpi(environ: Mapping[str, str]) -> Rank | None:
    rank = _number(environ, "OMPI_COMM_WORLD_RANK")
    if rank is None:
        return None
    name = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid")
    job = f"mpi-{name}" if name else _slurm_job(environ) or "mpi"
    world = _number(environ, "OMPI_COMM_WORLD_SIZE")
    return Rank(rank, world, job, "OMPI_COMM_WORLD_RANK", _requeued(environ))


def _slurm(environ: Mapping[str, str]) -> Rank | None:
    rank = _number(environ, "SLURM_PROCID")
    world = _number(environ, "SLURM_STEP_NUM_TASKS") or _number(environ, "SLURM_NTASKS")
    if rank is None or (world or rank + 1) == 1:
        return None
    job = _slurm_job(environ) or "slurm"
    return Rank(rank, world, job, "SLURM_PROCID", _requeued(environ))


def _slurm_job(environ: Mapping[str, str]) -> str:
    job = environ.get("SLURM_JOB_ID")
    if not job:
        return ""
    step = environ.get("SLURM_STEP_ID")
    return f"slurm-{job}.{step}" if step else f"slurm-{job}"


def _requeued(environ: Mapping[str, str]) -> int:
    return _number(environ, "SLURM_RESTART_COUNT") or 0


def _number(environ: Mapping[str, str], variable: str) -> int | None:
    text = environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def place() -> str:
    """This machine and process-number space: within one, two process numbers can be compared."""
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return f"{os.uname().nodename} {boot} {namespace}".strip()


def launcher(variable: str) -> str | None:
    """The process that gave out the ranks: the nearest ancestor without ``variable``.

    All ranks of a job on one machine have it in common, also when each runs in a shell of its own,
    and two jobs do not. ``None`` where there is no ``/proc``.
    """
    pid = os.getppid()
    for _ in range(64):
        try:
            parent, started = _stat(pid)
            if pid <= 1 or not _has(pid, variable):
                return f"{pid} {started}"
        except (OSError, ValueError, IndexError):
            return None
        pid = parent
    return None


def _stat(pid: int) -> tuple[int, str]:
    # The second field is the program's name in brackets, and may hold blanks and brackets itself.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[1]), fields[19].decode()


def _has(pid: int, variable: str) -> bool:
    try:
        environ = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # Not ours to read: a system daemon, as Slurm's.
        return False
    return f"\0{variable}=".encode() in environ
