"""A limit on how long one instrument may keep the script waiting.

The limit is an interval timer whose signal raises inside the instrument; it exists only while an
instrument runs between two phases, never while the script runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .errors import VoirError


class Stuck(BaseException):
    """Raised inside an instrument that takes too long; no ``except Exception`` holds it up."""

    def __init__(self, explained: VoirError) -> None:
        super().__init__(explained.what)
        self.explained = explained


class Deadline:
    """Raises inside an instrument that takes longer than ``seconds``; 0 means no limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._inside = False

    @contextmanager
    def __call__(self, who: str, generator: Generator[Any, Any, Any] | None = None) -> Iterator[None]:
        """Bound the code within; does nothing off the main thread, or within another bound."""
        if not self._applies():
            yield
            return
        self._inside = True
        before = signal.signal(signal.SIGALRM, self._handler(who))
        left, period = signal.setitimer(signal.ITIMER_REAL, self.seconds, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, left, period)
            signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
            self._inside = False

    def _applies(self) -> bool:
        if self.seconds <= 0 or self._inside or not hasattr(signal, "setitimer"):
            return False
        return threading.current_thread() is threading.main_thread()

    def _handler(self, who: str) -> Any:
        def expired(signum: int, frame: FrameType | None) -> None:
            place = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
            raise Stuck(
                VoirError(
                    "stuck",
                    f"it has kept the script waiting for {self.seconds:g} s{place}",
                    "It is switched off. To give it more time: --instrument-timeout SECONDS.",
                )
            )

        return expired
