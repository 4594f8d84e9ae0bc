"""Calls functions periodically on threads that are hidden from the script.

``threading.enumerate()`` does not list these threads, and they are stopped while the script forks:
the child then has no half-finished calls, and Python does not warn about forking with threads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from _thread import (
    allocate_lock,
    get_ident,
    get_native_id,
    interrupt_main,
    start_new_thread,
)  # fmt: skip
from collections.abc import Callable
from functools import cache, partial
from types import FrameType

from .boundary import Guarded, acting
from .clock import perf_counter, sleep, thread_time_ns
from .files import bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

#: Seconds that a fork, or the end of the run, waits for a call in progress. A first call may import
#: modules. Only the first fork waits for a call that hangs.
FORK_PATIENCE, END_PATIENCE = 1.0, 2.0
#: Seconds to wait for a thread's first frame.
START_TIMEOUT = 1.0
#: Bytes that must be free to start a thread; a block of this size is mapped, not touched.
THREAD_MEMORY = 1 << 26

#: Signals that scripts handle.
_HANDLED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGCHLD,
)  # fmt: skip
#: Calls wait while the script's recursion limit is lower: it would leave too few frames.
MIN_RECURSION_LIMIT = 200
recursion_limit = sys.getrecursionlimit

#: The frame that forks, with its instruction; and the callback for when it has forked.
_forker: tuple[FrameType, int] | None = None
_pending: Any = None
_Any = BaseException  # A script may change ``builtins``.

_open: list[Timer] = []
#: Idents of the timers' threads.
hidden: set[int] = set()
#: One item for each thread that is forking.
_forking: list[None] = []
#: The signal that has interrupted the preparations for a fork.
_interrupted: list[int] = []


class Timer:
    """Calls ``fn`` every ``seconds`` while open, independently of what the script does.

    Args:
        seconds: From the start of one call to the start of the next. A call that takes more than
            half of that is followed by a pause of its own duration.
        fn: Disabled when it fails.
        first: Seconds until the first call.
        charge: Receives the processor time of each call, in nanoseconds.
        on_stop: Receives a requested stop (stop, abort, ``.fail()``) raised by a call, which ends
            the timer. Without it that counts as a failure of ``fn``.
    """

    #: Held while a thread starts or is about to be stopped. Shared by all; replaced after a fork.
    _changing: ClassVar[Any] = threading.RLock()

    def __init__(
        self,
        seconds: float,
        fn: Guarded,
        first: float,
        charge: Callable[[int], object],
        on_stop: Callable[[BaseException], object] | None = None,
    ) -> None:
        if not seconds > 0:
            raise ValueError(f"every {seconds!r} seconds: that must be a number above 0")
        self._seconds, self._first, self._fn = seconds, min(first, seconds), fn
        self._charge, self._on_stop = charge, on_stop or self._fail
        self._over = False
        self._thread: _HiddenThread | None = None
        self._alone = allocate_lock()  # A call that hangs keeps it: the next thread must wait.

    def __enter__(self) -> Timer:
        self._due = perf_counter() + self._first
        _watch_forks()
        _open.append(self)
        self.resume()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over = True
        if self in _open:
            _open.remove(self)
        # A call may hang in a driver; the end of the run does not wait long for it.
        self.pause(END_PATIENCE)

    def pause(self, patience: float) -> _HiddenThread | None:
        """Stop the thread and return it; the time of the next call stays as it was."""
        with self._changing:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.request_stop(patience)
        return thread

    def resume(self) -> None:
        """Continue on a new thread, unless one exists or a thread of the script is forking."""
        with self._changing:
            if self._thread is None and self._goes_on and not _forking:
                try:
                    self._thread = _HiddenThread(self._run)
                except (RuntimeError, MemoryError) as error:  # Out of memory or threads.
                    self._fn.failed("timer", error, "it is no longer called")

    @property
    def _goes_on(self) -> bool:
        return not self._over and self._fn.alive

    def _run(self, thread: _HiddenThread) -> None:
        while not self._alone.acquire(timeout=0.05):
            if thread.stop_requested(0.0):
                return
        try:
            self._turns(thread)
        except BaseException as error:
            self._over = True
            self._fail(error)
        finally:
            self._alone.release()

    def _turns(self, thread: _HiddenThread) -> None:
        with acting(self._fn.who):
            while self._goes_on and not thread.stop_requested(max(self._due - perf_counter(), 0.0)):
                if self._goes_on:
                    began = perf_counter()
                    self._call()
                    ended = perf_counter()
                    self._due = max(began + self._seconds, ended + (ended - began))

    def _call(self) -> None:
        if recursion_limit() < MIN_RECURSION_LIMIT:
            return
        used = thread_time_ns()
        try:
            with bounded():  # Imports write byte code too.
                self._fn()
        except BaseException as error:  # This thread has no caller that could handle it.
            self._over = True
            self._on_stop(error)
        unlist()
        self._charge(thread_time_ns() - used)

    def _fail(self, error: BaseException) -> None:
        self._fn.failed("timer", error, "on its own thread it raised")


def start(run: Callable[..., object], *args: object) -> int:
    """Start a thread that ``threading`` does not list; return its ident.

    Raises:
        MemoryError: Too little memory is free.
        RuntimeError: The limit on threads is reached.
    """
    bytes(THREAD_MEMORY)  # Python aborts if a thread has no memory for its frames.
    return start_new_thread(run, args)


class _HiddenThread:
    """A running thread that ``threading`` does not list; ends with the process.

    Its locks are Python's own, even if eventlet or gevent replace those of ``threading``.
    """

    def __init__(self, run: Callable[[_HiddenThread], None]) -> None:
        self._run, self._task = run, 0
        self._wanted, self._running, self._begun = allocate_lock(), allocate_lock(), allocate_lock()
        for lock in (self._wanted, self._running, self._begun):
            lock.acquire()
        self._ident = start(self._main, self._running.release)
        # The first frame reserves memory for those that follow, whatever limit the script sets.
        self._begun.acquire(timeout=START_TIMEOUT)

    def _main(self, ended: Callable[[], None]) -> None:
        ident = 0
        try:
            ident, self._task = get_ident(), get_native_id()
            hidden.add(ident)
            self._begun.release()
            self._run(self)
        except _Any:
            pass  # The caller is Python, which would print a traceback.
        try:
            hidden.discard(ident)
        except _Any:
            pass
        ended()

    def stop_requested(self, seconds: float) -> bool:
        """On the thread: wait up to ``seconds`` for a request to stop; return whether it came."""
        # Python handles signals on the main thread: one delivered to this thread would not wake it.
        # Not blocked during calls, as child processes would inherit that.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            return self._wanted.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def request_stop(self, patience: float) -> None:
        """Ask the thread to stop, once, and wait up to ``patience`` seconds for it."""
        self._wanted.release()
        if self._ident != get_ident():
            self.join(patience)

    def join(self, patience: float) -> bool:
        """Wait up to ``patience`` seconds for its end; return whether it has ended."""
        ended = self._running.acquire(timeout=patience)
        if ended:
            self._running.release()
        return ended

    def wait_until_gone(self, patience: float) -> None:
        """Wait until the kernel has removed it, if /proc shows that."""
        until = perf_counter() + patience
        while os.path.exists(f"/proc/self/task/{self._task}") and perf_counter() < until:
            sleep(0.0001)


def unlist() -> None:
    """Remove this thread from the list of ``threading``, where psutil puts it by asking for it."""
    listed: dict[int, threading.Thread] = getattr(threading, "_active", {})
    if type(listed.get(get_ident())).__name__ == "_DummyThread":
        listed.pop(get_ident(), None)


@cache
def _watch_forks() -> None:
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )
    # Not a function in Python, in which what it causes would be raised, and only printed.
    os.register_at_fork(after_in_parent=partial(sorted, _interrupted, key=interrupt_main))


def _whole(does: Callable[[], object]) -> None:
    """Call to the end what Ctrl-C interrupts; the interrupt comes again after the fork.

    Python would only print what a hook raises.
    """
    while True:
        try:
            does()
            return
        except KeyboardInterrupt:
            if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                raise
            _interrupted[:] = [signal.SIGINT]


def _before_fork() -> None:
    global _forker
    _interrupted.clear()
    if sys.version_info >= (3, 12) and get_ident() == threading.main_thread().ident:
        frame = sys._getframe(1)
        _forker = frame, frame.f_lasti
    _forking.append(None)
    _whole(_pause)


def _pause() -> None:
    for thread in [timer.pause(FORK_PATIENCE) for timer in list(_open)]:
        if thread is not None and thread.join(0):
            thread.wait_until_gone(FORK_PATIENCE)


def _after_fork() -> None:
    _forking.pop()
    _whole(_resume_soon)


def _resume_soon() -> None:
    if _forker is None or not (_open and _resume_after_the_call()):
        _resume()


def _resume() -> None:
    global _forker
    _forker = None
    for timer in list(_open):
        timer.resume()


def _resume_after_the_call() -> bool:
    """Resume when the forking call has returned; return whether that could be arranged.

    From 3.12 on, Python counts threads inside that call, after the registered functions, and warns
    about more than one. If another thread than the main one forks, there are always two.
    """
    global _pending
    try:
        import ctypes

        add = ctypes.pythonapi.Py_AddPendingCall
    except (ImportError, AttributeError):
        return False

    def pending(nothing: object) -> int:
        frame = interrupted = sys._getframe(1)
        while _forker is not None and frame is not None:
            if frame is _forker[0] and frame is not interrupted and frame.f_lasti == _forker[1]:
                return int(add(_pending, None))  # Called from another registered function.
            frame = frame.f_back  # type: ignore[assignment]
        _resume()
        return 0

    if _pending is None:
        _pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(pending)
    return bool(add(_pending, None) == 0)


def _after_fork_in_child() -> None:
    """The child has no timer threads, and the run belongs to its parent."""
    global _forker
    _forker = None
    Timer._changing = threading.RLock()  # Another thread may have held the old one.
    for timer in _open:
        timer._over, timer._thread = True, None
    _open.clear()
    _forking.clear()
