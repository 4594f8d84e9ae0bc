"""Whole lines to a file descriptor: one write each, and a failure reported once, then counted."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping

from ..errors import Problem
from .encode import encode

Report = Callable[[Problem], None]


def identity(fd: int) -> tuple[int, int]:
    """What file a descriptor stands for, to notice when its number comes to mean another."""
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


class LineWriter:
    """Writes lines to a descriptor; never raises, and never writes in a forked child.

    Subclasses say where the descriptor comes from (``_descriptor``) and what a failure means
    (``_problem``).

    Args:
        report: Told about the first failure.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.RLock()  # Reporting a loss may log in its turn.
        self._pid = os.getpid()
        self._error: str | None = None
        self.written = 0
        self.lost = 0

    def write(self, event: Mapping[str, object]) -> None:
        """Encode ``event`` and write its line; values on a device are written as shapes."""
        self.write_line(encode(event))

    def write_line(self, line: bytes) -> None:
        """Write one line, its newline included."""
        if os.getpid() != self._pid:  # A forked child: the log, and perhaps the lock, is not ours.
            return
        with self._lock:
            try:
                self._put(self._descriptor(), line)
                self.written += 1
            except OSError as error:
                self._lose(error)

    def failure(self) -> dict[str, object] | None:
        """What went wrong, as an entry for ``instruments`` in run.json; ``None`` if nothing did."""
        if self._error is None:
            return None
        error = f"{self._error}; lines lost: {self.lost}"
        return {"name": self._name(), "state": "failed", "error": error}

    def _put(self, fd: int, line: bytes) -> None:
        while line:  # Once, but for a pipe or a disk that is nearly full.
            line = line[self._some(fd, line) :]

    def _some(self, fd: int, line: bytes) -> int:
        written = os.write(fd, line)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    def _lose(self, error: OSError, lines: int = 1) -> None:
        self.lost += lines
        if error.errno == errno.ENOENT:  # Deleted: what stood there is gone as well.
            self.lost, self.written = self.lost + self.written, 0
        if self._error is None:
            self._error = error.strerror or str(error)
            self._report(self._problem(self._error))

    def _descriptor(self) -> int:
        """The descriptor to write to.

        Raises:
            OSError: There is none.
        """
        raise NotImplementedError

    def _name(self) -> str:
        raise NotImplementedError

    def _problem(self, error: str) -> Problem:
        raise NotImplementedError
