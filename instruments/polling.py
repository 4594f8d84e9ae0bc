"""Calling a function every so often without a run: on a thread, or in a process of its own.

In a run ``ov.every`` is better: it ends with the run, and its cost is counted.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable
from threading import Event, Thread, current_thread
from typing import Any, Protocol

from overseer.clock import monotonic

#: How long stopping waits for a reading that has begun, in seconds.
PATIENCE = 2.0


class Startable(Protocol):
    """What can be started and stopped."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


class Monitor(Thread):
    """Calls ``func`` every ``delay`` seconds on a thread, from the first ``delay`` on."""

    def __init__(self, delay: float, func: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.delay = delay
        self.func = func
        self._ended = Event()

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._ended.is_set()

    def run(self) -> None:
        """Call the function until told to stop."""
        while not self._ended.wait(self.delay):
            self.func()

    def stop(self) -> None:
        """Call it no more; a call that has begun is waited for, but not for long."""
        self._ended.set()
        if self.is_alive() and self is not current_thread():
            self.join(PATIENCE)


class Readings:
    """What another process puts and this one takes."""

    def __init__(self, context: Any) -> None:
        self._queue = context.SimpleQueue()
        self._kept: deque[Any] = deque()

    def put(self, reading: Any) -> None:
        """Add one."""
        self._queue.put(reading)

    def empty(self) -> bool:
        """Whether there is none now."""
        return not self._kept and bool(self._queue.empty())

    def get(self) -> Any:
        """The oldest; waits for one."""
        return self._kept.popleft() if self._kept else self._queue.get()

    def keep(self) -> None:
        """Take what is there into this process, so that whoever puts is not held up."""
        while not self._queue.empty():
            self._kept.append(self._queue.get())


class ProcessMonitor:
    """Puts what ``func`` returns into ``results`` every ``delay`` seconds, in another process.

    A script that never lets go of the interpreter does not delay it.

    Args:
        delay: Seconds between two calls.
        func: Called there.
        worker_init: Called there once before.
    """

    def __init__(
        self,
        delay: float,
        func: Callable[[], object],
        worker_init: Callable[[], object] | None = None,
    ) -> None:
        # A fork takes along functions that cannot be pickled, such as readers and lambdas.
        forks = "fork" in multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if forks else None)
        self.results = Readings(context)
        self._ended = context.Event()
        arguments = (os.getpid(), self._ended, self.results, func, delay, worker_init)
        self.process = context.Process(target=_work, args=arguments, daemon=True)

    def start(self) -> None:
        """Start the process."""
        self.process.start()

    def stop(self) -> None:
        """End the process; what it has read stays in ``results``."""
        self._ended.set()
        until = monotonic() + PATIENCE
        while self.process.is_alive() and monotonic() < until:
            self.results.keep()
            self.process.join(0.02)
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()


def _work(
    parent: int,
    ended: Any,
    results: Readings,
    func: Callable[[], object],
    delay: float,
    init: Callable[[], object] | None,
) -> None:
    if init is not None:
        init()
    while os.getppid() == parent:  # Nobody reads on when the parent is gone.
        results.put(func())
        if ended.wait(delay):
            break


class ProcessPusher(Monitor):
    """Calls ``func`` with everything in ``queue``, every ``delay`` seconds on a thread."""

    def __init__(self, delay: float, queue: Any, func: Callable[[Any], object]) -> None:
        super().__init__(delay, self.push)
        self.queue = queue
        self._take = func

    def push(self) -> None:
        """Hand over what there is now."""
        while not self.queue.empty():
            self._take(self.queue.get())

    def stop(self) -> None:
        """Hand over the rest, and end."""
        super().stop()
        self.push()


class Together:
    """Several as one: started and stopped in order."""

    def __init__(self, *args: Startable) -> None:
        self.args = args

    def start(self) -> None:
        """Start each."""
        for one in self.args:
            one.start()

    def stop(self) -> None:
        """Stop each."""
        for one in self.args:
            one.stop()


def poll(
    delay: float,
    getfun: Callable[[], Any],
    pushfun: Callable[[Any], object],
    process: bool = True,
    worker_init: Callable[[], object] | None = None,
) -> Startable:
    """Something to start and stop: meanwhile ``pushfun(getfun())`` every ``delay`` seconds.

    Args:
        delay: Seconds between two readings.
        getfun: Reads; in the other process, if there is one.
        pushfun: Takes a reading, on a thread of this process.
        process: Whether to read in another process.
        worker_init: Called once where the readings are taken.
    """
    if process:
        reader = ProcessMonitor(delay, getfun, worker_init)
        return Together(reader, ProcessPusher(delay, reader.results, pushfun))
    if worker_init is not None:
        worker_init()
    return Monitor(delay, lambda: pushfun(getfun()))
