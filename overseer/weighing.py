"""What voir has cost a run besides its events: what was charged, and its thread but the script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .clock import Clock


class Account:
    """What voir has cost a run: what was charged to it, and all of its thread but the script.

    Args:
        clock: The machine's clocks.
        since_ns: What this thread had used of the processor when voir began; now, if not given.
    """

    def __init__(self, clock: Clock, since_ns: int | None = None) -> None:
        self._clock = clock
        self._thread = threading.get_ident()
        self._since = clock.cpu_ns() if since_ns is None else since_ns
        self._own_ns = self._charged_ns = 0
        self._inside = False

    def charge(self, ns: int) -> None:
        """Add processor time; on the script's own thread only what voir used within the script."""
        own = threading.get_ident() == self._thread
        if self._inside or not own:
            self._charged_ns += ns

    @contextmanager
    def script(self) -> Iterator[None]:
        """Within, the time of this thread is the script's."""
        self._own_ns += self._clock.cpu_ns() - self._since
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            self._since = self._clock.cpu_ns()

    @property
    def charged_ns(self) -> int:
        """All of it so far, but for events."""
        return self.outside_ns + self._charged_ns

    @property
    def outside_ns(self) -> int:
        """What this thread has used before and after the script, or between its parts."""
        if self._inside or threading.get_ident() != self._thread:
            return self._own_ns
        return self._own_ns + self._clock.cpu_ns() - self._since
