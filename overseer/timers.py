"""Calling something every so often, on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from .boundary import Guarded


class Timer:
    """Calls ``fn`` every ``seconds`` while open, whatever the script is doing.

    Args:
        seconds: From the start of one call to the start of the next; a call that takes longer
            than its share is followed by a pause, so that it never takes more than half.
        fn: Guarded: it is switched off when it fails.
        first: Seconds until the first call.
        charge: Told the processor nanoseconds that each call used.
    """

    def __init__(
        self, seconds: float, fn: Guarded, first: float, charge: Callable[[int], object]
    ) -> None:
        self.seconds = seconds
        self._fn = fn
        self._first = min(first, seconds)
        self._charge = charge
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"voir {fn.who}", daemon=True)

    def _run(self) -> None:
        wait = self._first
        while not self._stop.wait(wait) and self._fn.alive:
            started, used = time.perf_counter(), time.thread_time_ns()
            self._fn()
            self._charge(time.thread_time_ns() - used)
            took = time.perf_counter() - started
            wait = max(self.seconds - took, min(took, self.seconds))

    def __enter__(self) -> Timer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            # A call may hang in a driver; the run's end does not wait for it for long.
            self._thread.join(timeout=2.0)
