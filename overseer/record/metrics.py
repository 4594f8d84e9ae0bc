"""``metrics.jsonl``: what the run logged, a line an event, readable at any moment."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from ..errors import Problem
from ..spare import HIGH
from .lines import LineWriter, Report


class MetricsLog(LineWriter):
    """Append events to ``metrics.jsonl``; readable at any moment, also after SIGKILL.

    A line that cannot be written whole is taken back, so only the last one can ever be torn. A
    script that closes descriptors it did not open (daemons do) neither stops the log nor gets its
    lines into a file of its own: the descriptor is checked before each write.

    Args:
        path: The file; it is created when it does not exist.
        report: Told once when lines are being lost.
    """

    def __init__(self, path: Path, report: Report) -> None:
        super().__init__(report)
        self.path = path
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._size = 0

    def close(self) -> None:
        """Close the file; writing again reopens it."""
        if os.getpid() != self._pid:  # A forked child: see write_line.
            return
        with self._lock:
            if self._fd < 0:
                return
            try:
                os.close(self._check())
            except OSError as error:
                if error.errno == errno.ENOENT:
                    self._lose(error, lines=0)
            self._fd = -1

    def _descriptor(self) -> int:
        try:
            return self._check()
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            return self._open()

    def _check(self) -> int:
        # The script may have closed our number and opened a file that got it.
        stat = os.fstat(self._fd) if self._fd >= 0 else None
        if stat is None or (stat.st_dev, stat.st_ino) != self._identity:
            raise OSError(errno.EBADF, "closed by the script")
        if stat.st_nlink == 0:  # Writing would succeed, and nobody could ever read it.
            raise FileNotFoundError(errno.ENOENT, "the file was deleted while the run went on")
        self._size = stat.st_size
        return self._fd

    def _open(self) -> int:
        # Made once: a file that has gone is not begun anew, which would hide the loss.
        create = os.O_CREAT if self._identity is None else 0
        self._fd = _raised(os.open(self.path, os.O_WRONLY | os.O_APPEND | create, 0o666))
        stat = os.fstat(self._fd)
        self._identity = (stat.st_dev, stat.st_ino)
        self._size = stat.st_size
        return self._fd

    def _put(self, fd: int, line: bytes) -> None:
        try:
            super()._put(fd, line)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, self._size)
            raise

    def _name(self) -> str:
        return "metrics.jsonl"

    def _problem(self, error: str) -> Problem:
        return Problem(
            "record-unwritable",
            str(self.path),
            f"what the script logs is no longer recorded ({error})",
            remedy="Free or choose another disk: --run-dir DIR; --no-record records nothing.",
        )


def _raised(fd: int) -> int:
    """The same file under a high number, or ``fd`` itself where the limit is too low."""
    try:
        import fcntl

        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except (ImportError, OSError):
        return fd
    os.close(fd)
    return high
