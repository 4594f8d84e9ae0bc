"""Finds the rank of this process in its job, and the directory that the job's ranks share.

Ranks start at different times, perhaps on different machines, without communicating. They meet in
the file system:

- The directory is ``<script>-<job>``, then ``<script>-<job>-2`` and so on. A rank joins the latest
  one that can be its job's, otherwise it creates the next.
- The first rank to arrive creates ``job.json`` atomically: job, world size, start, its launcher,
  and its machine's clocks. Each further launcher of the job leaves an empty file of its name.
- ``rank<R>`` is created exclusively. The ranks of a restart are in ``attempt2`` and so on.

What torchrun's agent starts is one job. Otherwise job and rendezvous must be equal, the start must
be near, and the job must not be over; and if its name has neither id nor port, the ranks of a
machine must have one launcher. One case remains: if a rank recorded nothing, the same rank of
another run that passes all this joins the earlier run. Nothing is overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..clock import process_start, time_ns
from ..errors import UsageError
from ..files import is_own, new, read, read_json
from ..recorder import recorder
from ..recorder.encode import encode

MARKER = "job.json"
#: Longest time between the starts of a job's ranks; if neither its name nor its launcher tells it.
WIDE_NS, WINDOW_NS = 3600 * 1_000_000_000, 120 * 1_000_000_000
#: Directories of the same name that may be the job's: the latest ones.
SEARCHED = 32
#: Variables of rank, world size, local rank and restarts. Slurm comes late: launchers in a batch
#: script inherit its variables. Where PMIx is all there is, the world size is unknown.
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
_WORLD = tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK"))
OPEN_MPI = (*_WORLD, "SLURM_RESTART_COUNT")
MPICH = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "SLURM_RESTART_COUNT")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_RESTART_COUNT")
PMIX = ("PMIX_RANK", "", "", "SLURM_RESTART_COUNT")
LAUNCHES = (TORCHRUN, OPEN_MPI, MPICH, SLURM, PMIX)
#: torchrun's default run id; addresses and ports that do not distinguish jobs.
_NO_ID, _LOOPBACK, _NO_PORT = ("", "none"), ("", "localhost", "127.0.0.1", "::1"), ("", "0")
_ATTEMPT, _LAUNCHER = re.compile(r"attempt([1-9]\d{0,8})\Z"), "launcher-"


class OtherRun(Exception):
    """The directory belongs to another run; the message gives the reason."""


class Rank(NamedTuple):
    """One process of a job.

    Attributes:
        rank: Its number, from 0.
        world_size: Count of ranks; ``None`` if the launcher does not provide it.
        local_rank: Its number on its machine; ``None`` if the launcher does not provide it.
        job: A name that all ranks of the job derive; later jobs may reuse it.
        restart: Count of restarts by the launcher; each is a further attempt.
        rendezvous: Address and port where the ranks meet; empty if unknown.
        distinct: Whether the name has an id or a port, so that jobs at one time differ.
        elastic: Whether torchrun's agent started it, which starts one job and its restarts.
    """

    rank: int
    world_size: int | None
    local_rank: int | None
    job: str
    restart: int = 0
    rendezvous: str = ""
    distinct: bool = False
    elastic: bool = False


def find_rank(environ: Mapping[str, str]) -> Rank | None:
    """The rank of this process; ``None`` outside of torchrun, MPI and Slurm.

    Slurm numbers the tasks of a batch script too. Only ``srun`` starts a job's tasks, in a step.
    """
    for variables in LAUNCHES:
        rank, world, local, restart = (_number(environ, name) for name in variables)
        if variables is SLURM and rank is not None:
            world = _number(environ, "SLURM_STEP_NUM_TASKS") or world
            step = "SLURM_STEP_ID" in environ
            if rank == 0 and step and world in (None, 1):
                return None
            rank = rank or (0 if step else None)
        if rank is not None and not (variables is MPICH and world == 1):
            restart = restart or _number(environ, "SLURM_RESTART_COUNT") or 0
            return Rank(rank, world, local, *_job(environ, variables, restart))
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


def _job(
    environ: Mapping[str, str], variables: tuple[str, ...], restart: int
) -> tuple[str, int, str, bool, bool]:
    """The last five fields of a rank: the job's name has an id, otherwise address and port."""
    job, step = environ.get("SLURM_JOB_ID"), environ.get("SLURM_STEP_ID")
    slurm = f"slurm-{job}" + (f".{step}" if step else "") if job else ""
    if variables is SLURM:
        return slurm or "slurm", restart, "", bool(job), False
    if variables is not TORCHRUN:
        names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID")
        name = next(filter(None, map(environ.get, names)), None)
        known = f"mpi-{name}" if name else slurm
        return known or "mpi", restart, "", bool(known), False
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    where = [address] if address not in _LOOPBACK else []
    where += [port] if port not in _NO_PORT else []
    name = f"torchrun-{run}" if run not in _NO_ID else ""
    name = name or "-".join([slurm or ("torchrun" if run else "ranks"), *where])
    distinct = run not in _NO_ID or port not in _NO_PORT or bool(slurm)
    return name, restart, "-".join(where), distinct, bool(run)


def _number(environ: Mapping[str, str], variable: str) -> int | None:
    text = environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class Job:
    """Finds the directory that the ranks of a job share.

    Args:
        rank: This process.
        script: The script's safe name.
        started: Wall time at the start of this process, in nanoseconds.
        launcher: The process that started the ranks, from :func:`find_launcher`.

    Attributes:
        attempt: Number of this attempt, from 1; known once the directory is created.
    """

    def __init__(self, rank: Rank, script: str, started: int, launcher: str) -> None:
        self.rank, self.started, self._launcher = rank, started, launcher
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", rank.job).strip("-._")[:64] or "job"
        self.name, self.attempt = f"{script}-{safe}", rank.restart + 1
        self._job = {"job": rank.job, "script": script}
        self._start = {"world_size": rank.world_size, "rendezvous": rank.rendezvous}
        self._meeting = {"job": rank.job, "rendezvous": rank.rendezvous}

    def find(self, base: Path) -> Path:
        """Create this rank's directory in the job's directory below ``base``.

        Raises:
            OSError: It cannot be created.
        """
        base.mkdir(parents=True, exist_ok=True)
        numbers, latest = self._numbers(os.listdir(base)), True
        for number in numbers[:SEARCHED]:
            directory = self._numbered(base, number)
            with suppress(OtherRun):
                return self.join(directory, latest)
            marker = _marker(directory)
            latest &= any(marker.get(key) != value for key, value in self._meeting.items())
        number = numbers[0] + 1 if numbers else 1
        while True:
            with suppress(OtherRun):
                return self.join(self._numbered(base, number))
            number += 1

    def _numbers(self, names: list[str]) -> list[int]:
        """The numbers of the directories of the job's name, the latest first."""
        pattern = re.compile(re.escape(self.name) + r"(?:-(\d{1,9}))?\Z")
        found = (pattern.match(name) for name in names)
        return sorted((int(match[1] or 1) for match in found if match), reverse=True)

    def _numbered(self, base: Path, number: int) -> Path:
        return base / (self.name if number == 1 else f"{self.name}-{number}")

    def join(self, directory: Path, latest: bool = True) -> Path:
        """Create this rank's directory in ``directory``.

        Args:
            directory: The job's, if it passes :meth:`inspect`.
            latest: Whether no later directory has the job's name and rendezvous.

        Raises:
            OtherRun: The directory is another run's.
            OSError: It cannot be created.
        """
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / MARKER).exists():
            self._mark(directory)
        self.attempt = self.inspect(directory, latest)
        at = attempt_directory(directory, self.attempt)
        if self.attempt > 1:
            at.mkdir(exist_ok=True)
            if not (at / MARKER).exists():
                self._mark(at)
        own = at / f"rank{self.rank.rank}"
        try:
            own.mkdir()
        except FileExistsError:
            raise OtherRun(f"it holds {own.name} of another run") from None
        if self._launcher and self._launcher not in _launchers(directory):
            with suppress(OSError):
                os.close(new(directory / f"{_LAUNCHER}{self._launcher}"))
        return own

    def _mark(self, directory: Path) -> None:
        anchor = {"monotonic": recorder.now(), "epoch": time_ns(), "place": place()}
        known = {**self._job, **self._start, "started": self.started, "anchor": anchor}
        publish(directory / MARKER, encode({**known, "launcher": self._launcher or None}))

    def inspect(self, directory: Path, latest: bool = True) -> int:
        """Check whether this rank may use ``directory``, which need not exist.

        Returns:
            The attempt that this rank belongs to.

        Raises:
            OtherRun: The directory is another run's.
        """
        if directory.exists() and not is_own(directory):
            raise OtherRun("it belongs to another user")
        if (directory / "run.json").exists():
            raise OtherRun("it holds the run.json of a run in one process")
        ours = self._launcher in _launchers(directory)
        marker = _marker(directory)
        if any(marker.get(key, value) != value for key, value in self._job.items()):
            raise OtherRun(f"its {MARKER} is another run's")
        if not (ours and self.rank.elastic):
            self._check_start(directory, marker, ours, latest)
        number = max(attempts(directory)[-1], self.rank.restart + 1)
        while why := self._taken(attempt_directory(directory, number)):
            if not (ours and self.rank.elastic) or self._lives(directory, number):
                raise OtherRun(why)
            number += 1  # Of several agents, only the one whose rank failed counts the restart.
        return number

    def _check_start(
        self, directory: Path, marker: dict[str, Any], ours: bool, latest: bool
    ) -> None:
        """Check by launcher, end and start whether a directory of the job's name is this job's.

        Raises:
            OtherRun: It is another run's.
        """
        rank, why = self.rank, f"its {MARKER} is another run's"
        here = [each for each in _launchers(directory) if each.startswith(_host())]
        if not (ours or latest):
            raise OtherRun(why)
        if self._launcher and here and not ours:
            requeued = rank.restart and rank.job.startswith("slurm-")
            if not (rank.distinct and (requeued or any(map(_alive, here)))):
                raise OtherRun(why)
        began = marker.get("started")
        if rank.restart or not isinstance(began, int):
            return
        apart = abs(self.started - began)
        if ours and latest and apart <= WINDOW_NS:
            return
        if apart > (WIDE_NS if ours or rank.distinct else WINDOW_NS) or is_over(directory):
            raise OtherRun(why)

    def _taken(self, at: Path) -> str:
        """Why this rank cannot be of the attempt whose directory is ``at``; empty if it can."""
        own, marker = at / f"rank{self.rank.rank}", _marker(at)
        if own.exists():
            return f"it holds {own.name} of another run"
        same = all(marker.get(key, value) == value for key, value in self._start.items())
        return "" if same else f"its {MARKER} is another run's"

    def _lives(self, directory: Path, attempt: int) -> bool:
        """Whether this rank of an earlier attempt has not ended: then it is no restart."""
        from .killed import has_ended

        own = attempt_directory(directory, attempt) / f"rank{self.rank.rank}"
        return own.exists() and not has_ended(own)


def attempt_directory(directory: Path, attempt: int) -> Path:
    """The directory of an attempt of a job: the job's own for the first one."""
    return directory if attempt == 1 else directory / f"attempt{attempt}"


def attempt_number(directory: Path) -> int:
    """The number of the attempt whose directory it is."""
    match = _ATTEMPT.match(directory.name)
    return int(match[1]) if match else 1


def attempts(directory: Path) -> list[int]:
    """The numbers of a job's attempts in order; 1 is always among them."""
    try:
        found = (_ATTEMPT.match(name) for name in os.listdir(directory))
        return sorted({1, *(int(match[1]) for match in found if match)})
    except OSError:
        return [1]


def is_over(directory: Path) -> bool:
    """Whether all ranks that recorded the latest attempt of a job have ended."""
    from .killed import has_ended

    latest = attempt_directory(directory, attempts(directory)[-1])
    found = [entry for entry in latest.glob("rank*") if entry.name[4:].isdecimal()]
    return bool(found) and all(has_ended(entry) for entry in found)


def _marker(directory: Path) -> dict[str, Any]:
    """The content of ``job.json``; empty if missing, damaged, or being written."""
    try:
        marker = read_json(directory / MARKER)
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


# The launcher


def find_launcher(environ: Mapping[str, str]) -> str:
    """Identify the process that started this one and the other ranks of its machine.

    It is the nearest ancestor whose environment does not have this process's rank, so that a
    shell script around each rank is not taken for it.

    Returns:
        Host, process and its start, as a file name; empty if unknown.
    """
    name = next((names[0] for names in LAUNCHES if names[0] in environ), "")
    variable, pid = f"{name}={environ.get(name)}".encode(), os.getppid()
    while pid > 1:
        try:
            inherited = read(f"/proc/{pid}/environ").split(b"\0")
        except OSError:  # Another user's: a scheduler's daemon.
            break
        if variable not in inherited or not (above := _parent(pid)):
            break
        pid = above
    return f"{_host()}{pid}-{max(process_start(pid), 0)}" if pid > 0 else ""


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _launchers(directory: Path) -> set[str]:
    """The launchers of a job's ranks."""
    first = _marker(directory).get("launcher")
    with suppress(OSError):
        names = os.listdir(directory)
        found = {each.removeprefix(_LAUNCHER) for each in names if each.startswith(_LAUNCHER)}
        return found | {first} if isinstance(first, str) else found
    return set()


def _host() -> str:
    """The beginning of the names of this machine's launchers."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", place().partition(" ")[0]) + "-"


def _alive(launcher: str) -> bool:
    """Whether a launcher of this machine still runs."""
    _, pid, start = launcher.rsplit("-", 2)
    if not (pid.isdecimal() and start.isdecimal()):
        return True
    now = process_start(int(pid))
    return now == int(start) if now else not os.path.isdir("/proc/self")


def place() -> str:
    """Identify this machine since its boot: monotonic clocks are comparable within it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename} {boot}".strip()


def publish(path: Path, content: bytes) -> bool:
    """Create ``path`` with ``content`` atomically, unless it exists; whether this call did."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    with os.fdopen(new(draft), "wb") as file:
        file.write(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # No hard links: FAT, some network file systems.
        try:
            with os.fdopen(new(path), "wb") as file:
                file.write(content)
        except FileExistsError:
            return False
    finally:
        with suppress(OSError):
            draft.unlink()
    return True
