"""One directory for all ranks of a job, found without the ranks talking to one another.

Ranks start in different seconds, with different pids, perhaps on different machines, and the job's
id may be an old run's: torchrun says "none" unless told otherwise. So they meet in the file system:

- The directory is ``<script>-<job>``, then ``<script>-<job>-2`` and so on. A rank looks at the last
  one there is, and takes the next when that one is not its own run's.
- The first to arrive leaves ``job.json``, made whole or not at all, that says which run this is:
  the job, the world size, when it started, and the launcher process on its machine.
- Ranks on that machine compare the launcher; ranks elsewhere compare the time, within a window
  that is wide for a start and narrow for the next run.
- ``rank<R>`` is made exclusively. One that exists belongs to another run, whatever else agrees.

What remains: ranks started by hand from one shell, or on several machines, within the window after
a run of the same script in which this very rank recorded nothing, are put with that run. Nothing is
overwritten in any case.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from .encode import encode
from .ranks import Rank, launcher, place

MARKER = "job.json"
#: How far apart the ranks of one job may start.
WINDOW_NS = 120 * 1_000_000_000
_SAME = ("job", "script", "world_size", "restart")


class NotOurs(Exception):
    """The directory belongs to another run; the message says how one can tell."""


class Job:
    """A rank's view of its job: which directory all ranks share.

    Args:
        rank: This process.
        script: The script's safe name.
        started: Wall time at the start of this process, in nanoseconds.
    """

    def __init__(self, rank: Rank, script: str, started: int) -> None:
        self.rank = rank
        self.name = self._restarted(f"{script}-{safe_id(rank.job)}")
        self.started = started
        self.identity: dict[str, object] = {
            "job": rank.job,
            "script": script,
            "world_size": rank.world_size,
            "restart": rank.restart,
            "started": started,
            "place": place(),
            "launcher": launcher(rank.variable),
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
        number = self._last(base)
        while True:
            with suppress(NotOurs):
                return self.join(base / self._numbered(number))
            number += 1

    def join(self, directory: Path) -> Path:
        """This rank's own directory, new, in ``directory``.

        Raises:
            NotOurs: The directory is another run's.
            OSError: It cannot be made.
        """
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / MARKER).exists():
            _publish(directory / MARKER, encode(self.identity))
        self.inspect(directory)
        own = self._own(directory)
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
        if (directory / "run.json").exists():
            raise NotOurs("it holds the run.json of a run in one process")
        if self._own(directory).exists():
            raise NotOurs(f"it holds {self._own(directory).name} of another run")
        marker = _read(directory / MARKER)
        if marker is not None and not self._same_run(marker):
            raise NotOurs(f"its {MARKER} is another run's")

    def _own(self, directory: Path) -> Path:
        return directory / f"rank{self.rank.rank}"

    def _restarted(self, name: str) -> str:
        return f"{name}-restart{self.rank.restart}" if self.rank.restart else name

    def _numbered(self, number: int) -> str:
        return self.name if number == 1 else f"{self.name}-{number}"

    def _last(self, base: Path) -> int:
        pattern = re.compile(re.escape(self.name) + r"(?:-(\d{1,9}))?\Z")
        found = (pattern.match(name) for name in os.listdir(base))
        return max((int(match[1] or 1) for match in found if match), default=1)

    def _same_run(self, marker: dict[str, Any]) -> bool:
        mine = self.identity
        if any(marker.get(key) != mine[key] for key in _SAME):
            return False
        if marker.get("place") == mine["place"] and marker.get("launcher") != mine["launcher"]:
            return False
        started = marker.get("started")
        return isinstance(started, int) and abs(self.started - started) <= WINDOW_NS


def _read(path: Path) -> dict[str, Any] | None:
    try:
        marker = json.loads(path.read_bytes())
    except (OSError, ValueError):  # None; or being written, where links are not to be had.
        return None
    return marker if isinstance(marker, dict) else None


def _publish(path: Path, content: bytes) -> None:
    """Make ``path`` with ``content``, whole, unless it exists."""
    draft = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    draft.write_bytes(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # No hard links here, as on FAT and some network file systems.
        _publish_directly(path, content)
    finally:
        with suppress(OSError):
            draft.unlink()


def _publish_directly(path: Path, content: bytes) -> None:
    with suppress(FileExistsError), path.open("xb") as file:
        file.write(content)


def safe_id(job: str) -> str:
    """A job's name as part of a directory's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", job).strip("-._")[:64] or "job"
