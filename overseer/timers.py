"""Calling something every so often, on a thread that the script does not see.

The threads are not in ``threading.enumerate()``, and none exists while the script forks: a fork
copies no half-done work of theirs, and python has no reason to warn of a fork with threads.
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from .boundary import Guarded, acting
from .clock import perf_counter, sleep, thread_time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

#: How long a fork, or the end of the run, waits for a call that has begun, in seconds. A first call
#: imports things; of a call that hangs, only the first fork waits for the end.
FORK_PATIENCE, END_PATIENCE = 1.0, 2.0
#: The longest that a lock can be waited for, in seconds.
LONGEST = threading.TIMEOUT_MAX

_open: list[Timer] = []
_at_fork: list[Callable[[], None]] = []
#: Threads of timers, by their idents.
hidden: set[int] = set()
#: One item for each thread that is forking just now.
_forking: list[None] = []


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

    #: Held while a thread begins or is taken to be ended; one lock, to be made anew after a fork.
    _changing: ClassVar[Any] = threading.RLock()

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
        self._over = False
        self._thread: _Hidden | None = None
        self._hanging: _Hidden | None = None

    def __enter__(self) -> Timer:
        self._due = perf_counter() + self._first
        _watch_forks()
        _open.append(self)
        self.resume()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over = True
        if self in _open:
            _open.remove(self)
        # A call may hang in a driver; the run's end does not wait for it for long.
        self.pause(END_PATIENCE)

    def pause(self, patience: float) -> _Hidden | None:
        """End the thread, and return it; the time until the next call runs on."""
        with self._changing:
            thread, self._thread = self._thread, None
        if thread is not None:
            ended = False
            try:
                ended = thread.end(patience)
            finally:  # Ctrl-C may end the waiting.
                if not ended:
                    self._hanging = thread
        return thread

    def resume(self) -> None:
        """Go on with a new thread, unless there is one, or a thread is forking just now."""
        with self._changing:
            if self._thread is None and self._goes_on and not _forking:
                try:
                    self._thread = _Hidden(self._run)
                except RuntimeError as error:  # Memory or threads have run out.
                    self._fn.failed("timer", error, "it is called no more")

    def forget(self) -> None:
        """In a fork's child: the thread is not there, and the run is not the child's."""
        self._over, self._thread = True, None

    @property
    def _goes_on(self) -> bool:
        return not self._over and self._fn.alive

    def _run(self, ended: _Flag) -> None:
        try:
            self._turns(ended)
        except BaseException as error:  # Above is only python, which would print a traceback.
            self._over = True
            with suppress(BaseException):
                self._unwished(error)

    def _turns(self, ended: _Flag) -> None:
        while self._hanging is not None and not self._hanging.over(0.05):
            if ended.is_set():
                return
        with acting(self._fn.who):
            while self._goes_on and not ended.wait(max(self._due - perf_counter(), 0.0)):
                if self._goes_on:
                    self._due = rest(self.seconds, self._call()) + perf_counter()

    def _call(self) -> float:
        """Call the function once; the seconds that it took."""
        started, used = perf_counter(), thread_time_ns()
        try:
            self._fn()
        except BaseException as error:  # Nobody above this thread could do anything about it.
            self._over = True
            self._wish(error)
        unlist()
        self._charge(thread_time_ns() - used)
        return perf_counter() - started

    def _unwished(self, error: BaseException) -> None:
        self._fn.failed("timer", error, "on its own thread it raised")


class _Flag:
    """A ``threading.Event`` that stays the system's when eventlet or gevent replace locks."""

    def __init__(self) -> None:
        self._unset = allocate_lock()
        self._unset.acquire()

    def set(self) -> None:
        if self._unset.locked():
            self._unset.release()

    def is_set(self) -> bool:
        return not self._unset.locked()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, as long as ``seconds``; whether it is."""
        found = self._unset.acquire(timeout=min(seconds, LONGEST))
        if found:
            self._unset.release()
        return found


class _Hidden:
    """A running thread that ``threading`` does not list; it ends with the process."""

    def __init__(self, run: Callable[[_Flag], None]) -> None:
        self._run = run
        self._asked, self._ended = _Flag(), _Flag()
        self._task = 0
        self._ident = start_new_thread(self._main, ())

    def _main(self) -> None:
        self._task = get_native_id()
        hidden.add(get_ident())
        try:
            self._run(self._asked)
        finally:
            hidden.discard(get_ident())
            self._ended.set()

    def end(self, patience: float) -> bool:
        """Ask it to end, and wait for that as long as ``patience`` seconds; whether it has."""
        self._asked.set()
        return self._ident == get_ident() or self.over(patience)

    def over(self, patience: float) -> bool:
        """Wait for its end as long as ``patience`` seconds; whether it has ended."""
        return self._ended.wait(patience)

    def vanish(self, patience: float) -> None:
        """Wait for the system to be rid of it too; where that can't be seen, don't."""
        until = perf_counter() + patience
        while os.path.exists(f"/proc/self/task/{self._task}") and perf_counter() < until:
            sleep(0.0001)


def unlist() -> None:
    """Whoever asked for the current thread here (psutil does) has made threading list one."""
    listed: dict[int, threading.Thread] = getattr(threading, "_active", {})
    if type(listed.get(get_ident())).__name__ == "_DummyThread":
        listed.pop(get_ident(), None)


def _watch_forks() -> None:
    if not _at_fork and hasattr(os, "register_at_fork"):
        _at_fork.append(_before_fork)
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
        )


def _before_fork() -> None:
    _forking.append(None)
    paused = [timer.pause(FORK_PATIENCE) for timer in list(_open)]
    for thread in paused:
        if thread is not None and thread.over(0):
            thread.vanish(FORK_PATIENCE)


def _after_fork() -> None:
    _forking.pop()
    for timer in list(_open):
        timer.resume()


def _after_fork_in_child() -> None:
    Timer._changing = threading.RLock()  # Another thread may have held the old one.
    for timer in _open:
        timer.forget()
    _open.clear()
    _forking.clear()


def rest(seconds: float, took: float) -> float:
    """How long to pause after a call, so that calls never take more than half of the time."""
    return max(seconds - took, took)
