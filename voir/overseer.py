"""The overseer and its loggers."""

from __future__ import annotations

import os
from typing import Any

from overseer.engine.handle import LogStream
from overseer.engine.overseer import Overseer, current_overseer
from overseer.errors import Problem
from overseer.rundir.datafd import DataFd, opened

__all__ = ["JsonlFileLogger", "LogStream", "Overseer", "current_overseer"]


class JsonlFileLogger:
    """Writes events as JSON lines.

    Args:
        filename: A path, or a descriptor, which is closed at the end.
        require_writable: Raise if the file cannot be written; otherwise events are dropped.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(
        self, filename: str | int | os.PathLike[str], require_writable: bool = True
    ) -> None:
        self.filename = filename
        problems: list[Problem] = []
        try:
            self._out = DataFd({"DATA_FD": str(opened(filename))}, problems.append, owned=True)
        except OSError:
            if require_writable:
                raise
            self._out = DataFd({}, problems.append)
        if problems and require_writable:
            raise OSError(problems[0].what)

    def log(self, data: dict[str, Any]) -> None:
        """Write one event as a line of strict JSON; other values are described in text."""
        self._out.write(data)

    def close(self) -> None:
        """Close the file."""
        self._out.close()
