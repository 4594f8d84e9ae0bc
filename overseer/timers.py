"""Calling something every so often, on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from .boundary import Guarded, acting


class Timer:
    """Calls ``fn`` every ``seconds`` while open, whatever the script is doing.

    Args:
        seconds: From the start of one call to the start of the next; a call that takes longer
            than half of them is followed by a pause as long as itself.
        fn: Guarded: it is switched off when it fails.
        first: Seconds until the first call.
        charge: Told the processor nanoseconds that each call used.
        wish: Told what the user asked for (stop, abort, ``.fail()``) in a call; the timer ends.
            Without it that counts as a failure of ``fn``, for the script is on another thread.
    """

    def __init__(
        self,
        seconds: float,
        fn: Guarded,
        first: float,
        charge: Callable[[int], object],
        wish: Callable[[BaseException], object] | None = None,
    ) -> None:
        if not seconds > 0:
            raise ValueError(f"every {seconds!r} seconds: that must be a number above 0")
        self.seconds = seconds
        self._fn = fn
        self._first = min(first, seconds)
        self._charge = charge
        self._wish = wish or self._unwished
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"voir {fn.who}", daemon=True)

    def _run(self) -> None:
        pause = self._first
        with acting(self._fn.who):
            while not self._stop.wait(pause) and self._fn.alive:
                pause = rest(self.seconds, self._call())

    def _call(self) -> float:
        """Call the function once; the seconds that it took."""
        started, used = time.perf_counter(), time.thread_time_ns()
        try:
            self._fn()
        except BaseException as error:  # Nobody above this thread could do anything about it.
            self._wish(error)
            self._stop.set()
        self._charge(time.thread_time_ns() - used)
        return time.perf_counter() - started

    def _unwished(self, error: BaseException) -> None:
        self._fn.failed("timer", error, "on its own thread it raised")

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


def rest(seconds: float, took: float) -> float:
    """How long to pause after a call, so that calls never take more than half of the time."""
    return max(seconds - took, took)
