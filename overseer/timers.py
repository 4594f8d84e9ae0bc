"""Calls functions at intervals, on a thread that the script does not see.

The threads are not in ``threading.enumerate()``, and none exists while the script forks: a fork
copies no half-done work of theirs, and python has no reason to warn of a fork with threads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from collections.abc import Callable
from functools import cache
from types import FrameType

from .boundary import Guarded, acting
from .clock import perf_counter, sleep, thread_time_ns
from .files import bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

#: How long a fork, or the end of the run, waits for a call that has begun, in seconds. A first call
#: imports things; of a call that hangs, only the first fork waits for the end.
FORK_PATIENCE, END_PATIENCE = 1.0, 2.0
#: How long the first frame of a thread is waited for, in seconds.
BEGINNING = 1.0
#: Bytes that must be free when a thread begins; so many are a mapping of their own, never touched.
ROOM = 1 << 26

#: Signals that scripts handle.
_HANDLED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGCHLD,
)  # fmt: skip
#: A script that allows itself fewer frames leaves too few for what is called; it has to wait.
SHALLOW = 200
recursion_limit = sys.getrecursionlimit

#: The frame that forks, and where; what is called when it has.
_forker: tuple[FrameType, int] | None = None
_pending: Any = None
_Any = BaseException  # A script may change what is in ``builtins``.

_open: list[Timer] = []
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
        on_stop: Told what the user asked for (stop, abort, ``.fail()``) in a call; the timer ends.
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
        on_stop: Callable[[BaseException], object] | None = None,
    ) -> None:
        if not seconds > 0:
            raise ValueError(f"every {seconds!r} seconds: that must be a number above 0")
        self._seconds, self._first, self._fn = seconds, min(first, seconds), fn
        self._charge, self._on_stop = charge, on_stop or self._fail
        self._over = False
        self._thread: _Hidden | None = None
        self._alone = allocate_lock()  # Whose call hangs keeps it: the next thread waits for that.

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
        # A call may hang in a driver; the run's end does not wait for it for long.
        self.pause(END_PATIENCE)

    def pause(self, patience: float) -> _Hidden | None:
        """End the thread, and return it; the time until the next call runs on."""
        with self._changing:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end(patience)
        return thread

    def resume(self) -> None:
        """Go on with a new thread, unless there is one, or a thread is forking just now."""
        with self._changing:
            if self._thread is None and self._goes_on and not _forking:
                try:
                    self._thread = _Hidden(self._run)
                except (RuntimeError, MemoryError) as error:  # Memory or threads have run out.
                    self._fn.failed("timer", error, "it is called no more")

    @property
    def _goes_on(self) -> bool:
        return not self._over and self._fn.alive

    def _run(self, thread: _Hidden) -> None:
        while not self._alone.acquire(timeout=0.05):
            if thread.asked(0.0):
                return
        try:
            self._turns(thread)
        except BaseException as error:
            self._over = True
            self._fail(error)
        finally:
            self._alone.release()

    def _turns(self, thread: _Hidden) -> None:
        with acting(self._fn.who):
            while self._goes_on and not thread.asked(max(self._due - perf_counter(), 0.0)):
                if self._goes_on:
                    began = perf_counter()
                    self._call()
                    ended = perf_counter()
                    self._due = max(began + self._seconds, ended + (ended - began))

    def _call(self) -> None:
        if recursion_limit() < SHALLOW:
            return
        used = thread_time_ns()
        try:
            with bounded():  # Python, too, may write: what it compiles of an import.
                self._fn()
        except BaseException as error:  # Nobody above this thread could do anything about it.
            self._over = True
            self._on_stop(error)
        unlist()
        self._charge(thread_time_ns() - used)

    def _fail(self, error: BaseException) -> None:
        self._fn.failed("timer", error, "on its own thread it raised")


def start(run: Callable[..., object], *args: object) -> int:
    """Start a thread that ``threading`` does not list, and return its ident.

    Raises:
        MemoryError: There is no room for one.
        RuntimeError: There can be no more threads.
    """
    bytes(ROOM)  # Python aborts in a thread that finds no memory for its frames.
    return start_new_thread(run, args)


class _Hidden:
    """A running thread that ``threading`` does not list; it ends with the process.

    Its locks are python's own, also where eventlet or gevent replace those of ``threading``.
    """

    def __init__(self, run: Callable[[_Hidden], None]) -> None:
        self._run, self._task = run, 0
        self._wanted, self._running, self._begun = allocate_lock(), allocate_lock(), allocate_lock()
        for lock in (self._wanted, self._running, self._begun):
            lock.acquire()
        self._ident = start(self._main, self._running.release)
        # With its first frame it has the memory for those that follow, whatever the script allows.
        self._begun.acquire(timeout=BEGINNING)

    def _main(self, ended: Callable[[], None]) -> None:
        ident = 0
        try:
            ident, self._task = get_ident(), get_native_id()
            hidden.add(ident)
            self._begun.release()
            self._run(self)
        except _Any:
            pass  # Above is only python, which would print a traceback.
        try:
            hidden.discard(ident)
        except _Any:
            pass
        ended()

    def asked(self, seconds: float) -> bool:
        """On the thread: wait as long as ``seconds`` to be asked to end; whether it is, once."""
        # A signal that this thread took would not wake the main one, where python handles it. Not
        # blocked in calls: programs that they start would have it blocked as well.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            return self._wanted.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self, patience: float) -> None:
        """Ask it to end, once, and wait for that as long as ``patience`` seconds."""
        self._wanted.release()
        if self._ident != get_ident():
            self.over(patience)

    def over(self, patience: float) -> bool:
        """Wait for its end as long as ``patience`` seconds; whether it has ended."""
        ended = self._running.acquire(timeout=patience)
        if ended:
            self._running.release()
        return ended

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


@cache
def _watch_forks() -> None:
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )


def _before_fork() -> None:
    global _forker
    if sys.version_info >= (3, 12) and get_ident() == threading.main_thread().ident:
        frame = sys._getframe(1)
        _forker = frame, frame.f_lasti
    _forking.append(None)
    for thread in [timer.pause(FORK_PATIENCE) for timer in list(_open)]:
        if thread is not None and thread.over(0):
            thread.vanish(FORK_PATIENCE)


def _after_fork() -> None:
    _forking.pop()
    if _forker is None or not (_open and _resume_behind_the_call()):
        _resume()


def _resume() -> None:
    global _forker
    _forker = None
    for timer in list(_open):
        timer.resume()


def _resume_behind_the_call() -> bool:
    """Resume when the call that forks has returned; whether that is arranged.

    From 3.12 on python counts the threads in there, behind what is registered, and warns of more
    than one. On another thread than the main one there always are two.
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
                return int(add(_pending, None))  # It is what somebody else has registered.
            frame = frame.f_back  # type: ignore[assignment]
        _resume()
        return 0

    if _pending is None:
        _pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(pending)
    return bool(add(_pending, None) == 0)


def _after_fork_in_child() -> None:
    """The threads are not there, and the run is not the child's."""
    global _forker
    _forker = None
    Timer._changing = threading.RLock()  # Another thread may have held the old one.
    for timer in _open:
        timer._over, timer._thread = True, None
    _open.clear()
    _forking.clear()
