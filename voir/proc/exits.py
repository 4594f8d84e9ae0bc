"""Noticing that a process has ended, without asking for it again and again."""

from __future__ import annotations

import os
import subprocess

#: How often to ask where the system cannot tell by itself, in milliseconds.
ASK_EVERY = 50.0


class Exit:
    """The end of a process, as something that can be waited for with others.

    Args:
        process: Which has been started.

    Attributes:
        patience: Milliseconds after which to ask :meth:`ended` again; ``None`` when one of
            :meth:`descriptors` tells.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._descriptor = _pidfd(process.pid) if process.returncode is None else None
        self.patience = ASK_EVERY if self._descriptor is None else None

    def descriptors(self) -> list[int]:
        """What becomes readable when the process ends."""
        return [] if self._descriptor is None else [self._descriptor]

    def ended(self) -> bool:
        """Whether it has ended; if so, its return code is known."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):  # Not Linux, an old one, or the process has gone already.
        return None
