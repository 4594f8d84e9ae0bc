"""Chooses and creates the run directory; nothing is ever overwritten."""

from __future__ import annotations

import os
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

from ..clock import gmtime, strftime
from ..context import REPLACED
from ..errors import Problem, UsageError
from ..files import new, read_json
from .job import Job, OtherRun, Rank, attempt_number, find_launcher, find_rank
from .metrics import NO_DESCRIPTORS

#: Files of a run; a directory with one of these holds a run.
RUN_FILES = ("run.json", "metrics.jsonl", "steps.npy", "trace.pftrace", "job.json")
#: Longest script name in a directory's name.
LONGEST_NAME = 48


class RunDirectory:
    """The directory of one run, created with the first record.

    ``<UTC yyyymmddThhmmss>-<script>-<pid>/`` in a parent directory, or the one the user named.
    Under torchrun, Open MPI or Slurm it is ``rank<R>/`` of one directory that all ranks share, and
    after a restart ``attempt<N>/rank<R>/``. A process that another run has started joins that run's
    directory: in ``rank<R>/``, or in ``process<N>/`` if it is no rank or the run has that rank
    already.

    Args:
        script: The script as the user named it: a path, ``-m module``, ``-``.
        pid: This process.
        started: Wall time at the start, in nanoseconds.
        report: Reports, once, that the directory cannot be created.
        parent: Absolute path of the parent of run directories. Empty: the current directory has
            been deleted, so there is none.
        above: The deepest existing ancestor at the start; it is not created again if it is deleted.
        chosen: Absolute path of the directory given by the user.
        environ: The environment the run was started with.
        enabled: False for ``--no-record``: no directory is created.
        made: Called once it has been created.
        joins: The directory of the run that started this process.
        known: Returns the rank of this process, once it is known otherwise than by its launcher.

    Attributes:
        made: Whether the directory has been created.
    """

    def __init__(
        self,
        script: str,
        pid: int,
        started: int,
        *,
        report: Callable[[Problem], None],
        parent: str = "",
        above: str = "",
        chosen: str = "",
        environ: Mapping[str, str] = os.environ,
        enabled: bool = True,
        made: Callable[[], object] = bool,
        joins: str = "",
        known: Callable[[], Any] = lambda: None,
    ) -> None:
        self._name = safe_name(script)
        self._own = f"{stamp(started)}-{self._name}-{pid}"
        self._parent, self._report, self._enabled = parent, report, enabled
        self._above = above
        self._process, self._tell, self.made = os.getpid(), made, False
        self._lock = threading.RLock()
        self._path: Path | None = None
        self._joins, self._known = Path(joins) if joins else None, known
        self._environ, self._shared = environ, False
        launched = find_rank(environ) if not joins else None
        self._launched = launched
        self._job = Job(launched, self._name, started, find_launcher(environ)) if launched else None
        self._chosen = Path(chosen) if chosen and not joins else None

    @property
    def attempt(self) -> int | None:
        """Number of this attempt of a job, if it was restarted."""
        joined = attempt_number(self._joins) if self._joins else 1
        number = self._job.attempt if self._job else joined
        return number if number > 1 else None

    @property
    def levels(self) -> int:
        """Number of last parts of the path that name the run, its job's name included."""
        return 1 + (self._job is not None or self._joins is not None) + (self.attempt is not None)

    @property
    def rank(self) -> Rank | None:
        """The rank of this process, as far as it is known, if it is one of several."""
        known: Rank | None = self._known()
        return known or self._launched or self._inherited()

    def _inherited(self) -> Rank | None:
        """The rank that the variables of a started process tell, unless they are a rank's own."""
        if self._joins is None or re.fullmatch(r"rank\d+", self._joins.name):
            return None
        return find_rank(self._environ)

    @property
    def undecided(self) -> bool:
        """Whether the directory depends on a rank that is not known yet."""
        return self._joins is not None and not self.made and self.rank is None

    def share(self) -> str:
        """The directory that processes of this run join; it is made by who records first.

        Empty if it cannot be made.
        """
        if self._joins is not None:
            return str(self._joins)
        if self._job is not None:
            return str(self.path or "")
        with self._lock:
            if not self._shared and not self.made:
                self._shared = True
                # Two containers may have the same script, second and process.
                self._own += f"-{os.urandom(2).hex()}"
        own = self._path or self._chosen or (self._parent and Path(self._parent, self._own))
        return str(own or "") if self._enabled else ""

    @property
    def joined(self) -> bool:
        """Whether a process that this one has started has recorded something."""
        found = self._path or (self._shared and self.share())
        with suppress(OSError):
            names = os.listdir(found) if found else []
            return any(re.fullmatch(r"(rank|process)\d+", name) for name in names)
        return False

    @property
    def path(self) -> Path | None:
        """The directory, created if necessary; ``None`` without one. Never raises."""
        if self._enabled and os.getpid() == self._process and not self.made:
            with self._lock:
                new = self._enabled and not self.made and self._make()
            if new:  # Outside the lock: the callback may take another one.
                self._tell()
        return self._path

    def check(self) -> None:
        """Check, before the script runs, that the user's directory can be this run's.

        After an exec of voir itself, the next name is used: ``DIR-2``.

        Raises:
            UsageError: It holds a run already, or is not a directory.
        """
        chosen = self._chosen
        if chosen is None or not self._enabled:
            return
        with suppress(OSError, ValueError):  # Failures show when it is created.
            if os.path.lexists(chosen) and not chosen.is_dir():
                what = f"--run-dir {chosen} is not a directory"
                remedy = "Name a directory; it is made when it does not exist."
                raise UsageError("run-dir-not-a-directory", what, remedy)
            rank = f"rank{self._launched.rank}" if self._launched else ""
            name, numbers = chosen.name, count(2)
            while _replaced(chosen / rank / "run.json"):
                chosen = self._chosen = chosen.with_name(f"{name}-{next(numbers)}")
            try:
                self._inspect(chosen)
            except OtherRun as why:
                what = f"--run-dir {chosen} is taken: {why}; nothing is ever overwritten"
                remedy = "Name another directory, or move that one away."
                raise UsageError("run-dir-taken", what, remedy) from None

    def _inspect(self, directory: Path) -> None:
        if self._job is not None:
            self._job.inspect(directory)
            return
        ranks = sorted(entry.name for entry in directory.glob("rank[0-9]*"))
        for name in (*RUN_FILES, *ranks):
            if (directory / name).exists():
                raise OtherRun(f"it holds {name} of another run")

    def _make(self) -> bool:
        try:
            self._path = claim(self._find())
        except (OtherRun, OSError, ValueError) as error:  # ValueError: an invalid file name.
            short = isinstance(error, OSError) and error.errno in NO_DESCRIPTORS
            self._enabled = short  # Tried again when descriptors are free.
            why = getattr(error, "strerror", None) or error
            remedy = "Name one you can write to: --run-dir DIR; --no-record asks for no record."
            where = str(self._chosen or self._parent or "voir-runs")
            what = f"this run is not recorded ({why})"
            self._report(Problem("record-unwritable", where, what, remedy=remedy))
            return False
        self.made = True
        return True

    def _find(self) -> Path:
        if self._above and not os.path.isdir(self._above):
            raise OtherRun(f"{self._above} has been deleted")
        if self._joins is not None:
            return self._member(self._joins)
        if self._shared:
            shared = Path(self.share())
            shared.mkdir(parents=True, exist_ok=True)
            return shared
        if self._chosen is not None:
            if self._job is not None:
                return self._job.join(self._chosen)
            self._chosen.mkdir(parents=True, exist_ok=True)
            self._inspect(self._chosen)
            return self._chosen
        if not self._parent:
            raise OtherRun("the current directory has been deleted")
        parent = Path(self._parent)
        if self._job is not None:
            return self._job.find(parent)
        parent.mkdir(parents=True, exist_ok=True)
        return new_directory(parent, self._own)

    def _member(self, directory: Path) -> Path:
        """Create the directory of this process in that of the run that started it."""
        directory.mkdir(parents=True, exist_ok=True)
        rank = self.rank
        names = (f"process{number}" for number in count(1))
        for name in chain([f"rank{rank.rank}"] if rank else [], names):
            with suppress(FileExistsError):
                (directory / name).mkdir()
                return directory / name
        raise AssertionError


def _replaced(file: Path) -> bool:
    """Whether a ``run.json`` is of this process before an exec."""
    try:
        facts = read_json(file)
        return bool(facts["ended_by"] == REPLACED and facts["pid"] == os.getpid())
    except (OSError, ValueError, LookupError, TypeError):
        return False


def claim(directory: Path) -> Path:
    """Create ``metrics.jsonl``; its creator owns the directory.

    Raises:
        FileExistsError: Another process was first.
    """
    os.close(new(directory / "metrics.jsonl"))
    return directory


def new_directory(base: Path, name: str) -> Path:
    """Create a new directory; in containers two runs may share second and pid."""
    for attempt in range(1, 1000):
        directory = base / (name if attempt == 1 else f"{name}-{attempt}")
        with suppress(FileExistsError):
            directory.mkdir()
            return directory
    raise FileExistsError(f"{name} and a thousand like it exist")


def stamp(wall_ns: int) -> str:
    """UTC as ``yyyymmddThhmmss``: sorts by time, valid on all file systems."""
    return strftime("%Y%m%dT%H%M%S", gmtime(wall_ns // 1_000_000_000))


def safe_name(script: str) -> str:
    """A short file name for a script, of letters, digits, ``.``, ``_`` and ``-``."""
    name = script[3:] if script.startswith("-m ") else _stem(script)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "replace").decode()
    plain = re.sub(r"(?<=\w)\?", "", plain)  # An accent, split from its letter.
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", plain)
    return plain.strip("-._")[:LONGEST_NAME].rstrip("-._") or "script"


def _stem(script: str) -> str:
    parts = [part for part in script.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if len(parts) > 1 and parts[-1] == "__main__.py":
        parts.pop()
    return re.sub(r"\.(py|pyw|pyz|zip)$", "", parts[-1]) if parts else ""
