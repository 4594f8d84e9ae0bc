"""Calls functions periodically on a thread, without a run."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread, current_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Monitor", "ProcessMonitor", "ProcessPusher", "_Monitor", "monitor"]

#: Longest wait for a running call when a thread is stopped, in seconds.
STOP_SECONDS = 2.0


class Monitor(Thread):
    """Calls ``func`` every ``delay`` seconds on a thread, from the first ``delay`` on.

    Attributes:
        worker_init: Called on the thread once before.
    """

    worker_init: Callable[[], object] | None = None

    def __init__(self, delay: float, func: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.delay, self.func = delay, func
        self._ended = Event()

    @property
    def stopped(self) -> bool:
        """Whether a stop was requested."""
        return self._ended.is_set()

    def run(self) -> None:
        """Call the function until a stop is requested."""
        if self.worker_init is not None:
            self.worker_init()
        while not self._ended.wait(self.delay):
            self.func()

    def stop(self) -> None:
        """Stop calling; wait briefly for a running call."""
        self._ended.set()
        if self.is_alive() and self is not current_thread():
            self.join(STOP_SECONDS)


class ProcessMonitor(Monitor):
    """Puts what ``func`` returns into ``results`` every ``delay`` seconds.

    It did so in another process once, and has its name from there.
    """

    def __init__(
        self,
        delay: float,
        func: Callable[[], object],
        worker_init: Callable[[], object] | None = None,
    ) -> None:
        self.results: SimpleQueue[object] = SimpleQueue()
        super().__init__(delay, lambda: self.results.put(func()))
        self.worker_init = worker_init


class ProcessPusher(Monitor):
    """Calls ``func`` with everything in ``queue``, every ``delay`` seconds."""

    def __init__(self, delay: float, queue: Any, func: Callable[[Any], object]) -> None:
        super().__init__(delay, self.push)
        self.queue, self._take = queue, func

    def push(self) -> None:
        """Hand over what there is now."""
        while not self.queue.empty():
            self._take(self.queue.get())

    def stop(self) -> None:
        """Hand over the rest, and end."""
        super().stop()
        self.push()


class _Monitor:
    """Several as one: started and stopped in order."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def start(self) -> None:
        """Start each."""
        for one in self.args:
            one.start()

    def stop(self) -> None:
        """Stop each."""
        for one in self.args:
            one.stop()


def monitor(
    delay: float,
    getfun: Callable[[], Any],
    pushfun: Callable[[Any], object],
    process: bool = True,
    worker_init: Callable[[], object] | None = None,
) -> Monitor:
    """A thread to start and stop: meanwhile it calls ``pushfun(getfun())`` every ``delay`` seconds.

    Args:
        delay: Seconds between two readings.
        getfun: Reads.
        pushfun: Takes a reading.
        process: It was another process once; a thread serves.
        worker_init: Called there once before.
    """
    made = Monitor(delay, lambda: pushfun(getfun()))
    made.worker_init = worker_init
    return made
