"""The run directory: where it is, who may write there, and that nothing is ever overwritten."""

from __future__ import annotations

import os
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..clock import gmtime, strftime
from ..errors import Problem, UsageError
from .job import Job, NotOurs
from .ranks import find_rank

Report = Callable[[Problem], None]

#: What a run writes; a directory that has one of these holds a run.
RUN_FILES = ("run.json", "metrics.jsonl", "trace.pftrace", "job.json")
#: The longest script name that a directory's name carries.
LONGEST_NAME = 48


class RunDirectory:
    """The directory of one run, made when there is first something to record.

    ``voir-runs/<UTC yyyymmddThhmmss>-<script>-<pid>/``, or the one the user named. Under torchrun,
    Open MPI or Slurm it is ``rank<R>/`` of one directory that all ranks of the job share.

    Args:
        script: How the user named the script: a path, ``-m module``, ``-``.
        pid: This process.
        started: Wall time at the start, in nanoseconds.
        run_dir: ``--run-dir``; ``VOIR_RUN_DIR`` of ``environ`` when not given.
        base: Where run directories go; ``voir-runs`` in the current directory when not given.
        environ: The environment the run was started with.
        enabled: False for ``--no-record``: there is no directory, then.
        report: Told once when the directory cannot be made.
    """

    def __init__(
        self,
        script: str,
        pid: int,
        started: int,
        *,
        report: Report,
        run_dir: str | Path | None = None,
        base: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        enabled: bool = True,
    ) -> None:
        chosen = run_dir or environ.get("VOIR_RUN_DIR")
        # Absolute from the start: the script may change its directory before anything is recorded.
        self._chosen = Path(os.path.abspath(os.path.expanduser(chosen))) if chosen else None
        self._base = Path(os.path.abspath(base or "voir-runs"))
        self._name = safe_name(script)
        self._pid = pid
        self._started = started
        self._report = report
        self._enabled = enabled
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._path: Path | None = None
        self._failed = False
        self.rank = find_rank(environ)
        # Now, not when the directory is made: the launcher may have gone by then.
        self._job = Job(self.rank, self._name, started) if self.rank else None
        if self._job and self._chosen:
            self._chosen = self._job.chosen(self._chosen)

    @property
    def made(self) -> bool:
        """Whether the directory exists, so that there is something to complete at the end."""
        return self._path is not None

    @property
    def path(self) -> Path | None:
        """The directory, made now if need be; ``None`` without one. It never raises."""
        if self._path is None and self._enabled and os.getpid() == self._process:
            with self._lock:
                if self._path is None and not self._failed:
                    self._make()
        return self._path

    def check(self) -> None:
        """Refuse a directory the user named that cannot be this run's, before the script runs.

        Raises:
            UsageError: It holds a run already, or is no directory.
        """
        if self._chosen is None or not self._enabled:
            return
        with suppress(OSError, ValueError):  # Whether it can be made will show when it is made.
            self._refuse_if_taken(self._chosen)

    def _refuse_if_taken(self, chosen: Path) -> None:
        if os.path.lexists(chosen) and not chosen.is_dir():
            raise UsageError(
                "run-dir-not-a-directory",
                f"--run-dir {chosen} is not a directory",
                "Name a directory; it is made when it does not exist.",
            )
        try:
            self._inspect(chosen)
        except NotOurs as why:
            raise UsageError(
                "run-dir-taken",
                f"--run-dir {chosen} is taken: {why}; nothing is ever overwritten",
                "Name another directory, or move that one away.",
            ) from None

    def _inspect(self, directory: Path) -> None:
        if self._job is not None:
            return self._job.inspect(directory)
        ranks = sorted(entry.name for entry in directory.glob("rank[0-9]*"))
        for name in (*RUN_FILES, *ranks):
            if (directory / name).exists():
                raise NotOurs(f"it holds {name} of another run")
        return None

    def _make(self) -> None:
        try:
            self._path = claim(self._of_job(self._job) if self._job else self._alone())
        except NotOurs as error:
            self._fail(str(error))
        except (OSError, ValueError) as error:  # ValueError: a name no file system takes.
            self._fail(f"{getattr(error, 'strerror', None) or error}")

    def _fail(self, why: str) -> None:
        self._failed = True
        place = self._chosen or self._base
        remedy = "Name a directory you can write to: --run-dir DIR; --no-record asks for no record."
        what = f"this run is not recorded ({why})"
        self._report(Problem("record-unwritable", str(place), what, remedy=remedy))

    def _alone(self) -> Path:
        if self._chosen is None:
            self._base.mkdir(parents=True, exist_ok=True)
            name = f"{stamp(self._started)}-{self._name}-{self._pid}"
            return new_directory(self._base, name)
        self._chosen.mkdir(parents=True, exist_ok=True)
        self._inspect(self._chosen)
        return self._chosen

    def _of_job(self, job: Job) -> Path:
        return job.find(self._base) if self._chosen is None else job.join(self._chosen)


def claim(directory: Path) -> Path:
    """Make an empty ``metrics.jsonl``: whoever makes it owns the directory.

    Raises:
        FileExistsError: Somebody else was first.
    """
    os.close(os.open(directory / "metrics.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    return directory


def new_directory(base: Path, name: str) -> Path:
    """A directory that did not exist: in containers two runs may share second and pid."""
    for attempt in range(1, 1000):
        directory = base / (name if attempt == 1 else f"{name}-{attempt}")
        with suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise FileExistsError(f"{name} and a thousand like it exist")


def stamp(wall_ns: int) -> str:
    """UTC as ``yyyymmddThhmmss``: sorts by time, and no file system minds it."""
    return strftime("%Y%m%dT%H%M%S", gmtime(wall_ns // 1_000_000_000))


def safe_name(script: str) -> str:
    """A short name of letters, digits, ``.``, ``_`` and ``-`` for a script named in any way."""
    name = script[3:] if script.startswith("-m ") else _stem(script)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "replace").decode()
    plain = re.sub(r"(?<=\w)\?", "", plain)  # An accent, now that its letter stands alone.
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", plain)
    return plain.strip("-._")[:LONGEST_NAME].rstrip("-._") or "script"


def _stem(script: str) -> str:
    parts = [part for part in script.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if len(parts) > 1 and parts[-1] == "__main__.py":
        parts.pop()
    return re.sub(r"\.(py|pyw|pyz|zip)$", "", parts[-1]) if parts else ""
