"""Writes ``metrics.jsonl``: given and logged events, one per line, readable at any time."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from ..errors import Problem
from ..files import descriptor

#: Errors for lack of descriptors: lines then wait.
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class MetricsLog:
    """Appends lines to ``metrics.jsonl``, opened for each write.

    The script may therefore close all descriptors. An incompletely written line is removed: only a
    killed process leaves a torn last line.

    Args:
        path: The file, which exists.
        report: Reports lost lines, once.

    Attributes:
        written: Count of lines in the file.
        lost: Count of lost lines.
    """

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.path, self._report = path, report
        self._error: str | None = None
        self.written = self.lost = 0

    def append(self, lines: list[bytes]) -> None:
        """Write lines that include their newlines.

        Raises:
            OSError: No descriptor is free. After other errors, reported, the lines are lost.
        """
        data, done, start = b"".join(lines), 0, None
        try:
            fd = descriptor(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise
            self._lose(error, len(lines))
            return
        try:
            start = os.fstat(fd).st_size
            while done < len(data):  # Once, unless the disk is nearly full.
                done += os.write(fd, memoryview(data)[done:])
            self.written += len(lines)
        except OSError as error:
            whole = data.rfind(b"\n", 0, done) + 1
            if start is not None:
                os.ftruncate(fd, start + whole)
            self.written += data.count(b"\n", 0, whole)
            self._lose(error, data.count(b"\n", whole))
        finally:
            os.close(fd)

    def failure(self) -> dict[str, object] | None:
        """The failure as an entry of ``instruments`` in run.json; ``None`` without one."""
        if self._error is None:
            return None
        error = f"{self._error}; lines lost: {self.lost}"
        return {"name": "metrics.jsonl", "state": "failed", "error": error}

    def _lose(self, error: OSError, lines: int) -> None:
        self.lost += lines
        if error.errno == errno.ENOENT:  # Deleted, with its lines.
            self.lost, self.written = self.lost + self.written, 0
        if self._error is None:
            self._error = error.strerror or str(error)
            what = f"what the script logs is no longer recorded ({self._error})"
            remedy = "Free or choose another disk: --run-dir DIR; --no-record records nothing."
            self._report(Problem("record-unwritable", str(self.path), what, remedy=remedy))
