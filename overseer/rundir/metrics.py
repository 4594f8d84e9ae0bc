"""``metrics.jsonl``: given and logged events, a line each, readable at any moment."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from ..errors import Problem
from ..files import descriptor

#: Errors of a process that has no descriptor left: what was to be written waits.
SHORT = (errno.EMFILE, errno.ENFILE)


class MetricsLog:
    """Appends lines to ``metrics.jsonl``, which is open only meanwhile.

    So the script may close all descriptors, and has all numbers to itself. A line that cannot be
    written whole is taken back: only a process that is killed leaves a torn one, the last.

    Args:
        path: The file, which exists.
        report: Told once when lines are being lost.

    Attributes:
        written: How many lines are in the file.
        lost: How many are not.
    """

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.path, self._report = path, report
        self._error: str | None = None
        self.written = self.lost = 0

    def append(self, lines: list[bytes]) -> None:
        """Write lines, their newlines included.

        Raises:
            OSError: No descriptor is left; all else is reported, and the lines are lost.
        """
        data, done, start = b"".join(lines), 0, None
        try:
            fd = descriptor(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            if error.errno in SHORT:
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
        """What went wrong, as an entry for ``instruments`` in run.json; ``None`` if nothing did."""
        if self._error is None:
            return None
        error = f"{self._error}; lines lost: {self.lost}"
        return {"name": "metrics.jsonl", "state": "failed", "error": error}

    def _lose(self, error: OSError, lines: int) -> None:
        self.lost += lines
        if error.errno == errno.ENOENT:  # Deleted: what stood there is gone as well.
            self.lost, self.written = self.lost + self.written, 0
        if self._error is None:
            self._error = error.strerror or str(error)
            what = f"what the script logs is no longer recorded ({self._error})"
            remedy = "Free or choose another disk: --run-dir DIR; --no-record records nothing."
            self._report(Problem("record-unwritable", str(self.path), what, remedy=remedy))
