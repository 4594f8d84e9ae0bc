"""Finalizes the run before a signal ends the process."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from ..boundary import Guarded, above
from ..clock import monotonic
from ..timers import Timer

_owner = os.getpid()

#: Polling interval for pending signals while the main thread is in C, in seconds. A signal is
#: handled when the second poll finds it.
POLL_SECONDS = 0.5

#: Ctrl-C within this many seconds of another counts as the same keystroke: wrappers forward the
#: signal to processes that already received it from the terminal.
ECHO_SECONDS = 0.25

#: Signals are ignored while the run is being closed, because the process is about to end; one that
#: arrives this many seconds after the first ends it at once.
REPEAT_SECONDS = 1.0


def in_child() -> bool:
    """True in a forked child, which does not own the run."""
    return os.getpid() != _owner


class _DefaultHandler(int):
    """A signal handler that ``signal.getsignal`` and ``signal.signal`` return as ``SIG_DFL``.

    They convert handlers to ``signal.Handlers`` by equality, while the interpreter compares by
    identity and calls this one. A script that saves the previous handler, to call or restore it,
    therefore sees the same as without voir.
    """

    handle: Callable[[int], None]

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        self.handle(signum)


class DeadlySignals:
    """While entered, SIGTERM and SIGHUP call ``finalize(signum)`` before the process dies.

    Signals with a handler other than the default are left alone, and handlers that the script
    installs later take precedence. ``finalize`` runs on the main thread, on top of the script's
    stack: the script is not unwound and none of its ``finally`` blocks run, as without voir. The
    same signal arriving again meanwhile is ignored (``timeout`` sends every signal twice).

    Python calls no handler while the main thread is in C. If it stays there, ``finalize`` runs on a
    thread of voir's, provided the C code releases the interpreter lock.

    Args:
        finalize: Ends the run; the process dies of the signal even if it raises.
        closing: Returns True while the run is being closed.
        at_once: Notice a signal in C from the start, not after the first poll. A process that
            another one ends soon, such as a worker of a pool, would else wait in C forever.
    """

    def __init__(
        self, finalize: Callable[[int], object], closing: Callable[[], bool] = bool,
        at_once: bool = False,
    ) -> None:  # fmt: skip
        self._at_once = at_once
        self._finalize, self._closing, self._ignored = finalize, closing, 0.0
        self._handler = _DefaultHandler(signal.SIG_DFL)
        self._handler.handle = self._die
        self._taken: list[int] = []
        self._arrivals: dict[int, ArrivalFile] = {}
        look = Guarded(self._look, "voir", lambda problem: None)
        self._watch = Timer(POLL_SECONDS, look, POLL_SECONDS, id)
        self._dying, self._process = threading.Lock(), os.getpid()
        self._blocked = threading.local()

    def __enter__(self) -> DeadlySignals:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python lets only the main thread set handlers.
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if _signal.getsignal(signum) == signal.SIG_DFL:
                _signal.signal(signum, self._handler)
                self._taken.append(signum)
        os.register_at_fork(
            before=self._block, after_in_parent=self._unblock, after_in_child=self._in_child
        )
        if sys.platform == "linux" and self._taken:
            # A thread that Python has not set up yet would receive a signal unnoticed.
            self._block()
            try:
                self._watch.__enter__()
                for taken in self._taken if self._at_once else ():
                    with suppress(OSError):
                        self._arrivals[taken] = ArrivalFile(taken)
            finally:
                self._unblock()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._restore()
        # Fork hooks cannot be unregistered. Drop the references to the run and the script's module:
        # Python clears modules that are still referenced at exit more abruptly.
        self._finalize, self._closing = id, bool

    def _restore(self) -> None:
        """Restore the default where the handler is still voir's."""
        self._watch.__exit__()
        while self._taken:
            signum = self._taken.pop()
            if _signal.getsignal(signum) is self._handler:
                if signum in self._arrivals:
                    self._arrivals[signum].end()
                signal.signal(signum, signal.SIG_DFL)

    # Python drops signals that a child receives before it is set up; with the default disposition
    # they would kill it. So they are blocked around a fork, until the child has the default.

    def _block(self) -> None:
        if self._taken:
            self._blocked.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def _unblock(self) -> None:
        if (mask := self._blocked.__dict__.pop("mask", None)) is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _in_child(self) -> None:
        self._restore()
        self._unblock()

    def _die(self, signum: int, restore: Callable[..., object] = signal.signal) -> None:
        if self._process == os.getpid() and self._closing():
            self._ignored = self._ignored or monotonic()
            if monotonic() < self._ignored + REPEAT_SECONDS:
                return
        if not self._dying.acquire(blocking=False):
            return
        try:
            if self._process == os.getpid():
                self._finalize(signum)
        finally:
            restore(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    def _look(self) -> None:
        """Poll for signals that arrived while the main thread is in C."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)  # A fork restarts this thread.
        for signum in tuple(self._taken):
            arrival = self._arrivals.get(signum)
            if _signal.getsignal(signum) is not self._handler:
                continue
            if arrival is None:  # Created late, so that short scripts see no extra descriptors.
                with suppress(OSError):
                    self._arrivals[signum] = ArrivalFile(signum)
            elif arrival.seen and arrival.size() > 0:
                import ctypes  # signal.signal() works only on the main thread.

                self._die(signum, ctypes.CDLL(None).signal)
            else:
                arrival.seen = arrival.size() > 0


class ArrivalFile:
    """A file that grows when ``signum`` arrives, even if Python cannot run its handler.

    ``faulthandler`` writes it from a C handler, which needs no interpreter lock.

    Raises:
        OSError: No descriptor is left.

    Attributes:
        seen: The previous poll found that the signal had arrived.
    """

    def __init__(self, signum: int) -> None:
        import faulthandler

        self._signum, self.seen = signum, False
        low = os.memfd_create("voir")
        try:
            self._file = above(low)
        finally:
            os.close(low)
        self._empty = os.fstat(self._file)
        faulthandler.register(signum, self._file, all_threads=False, chain=True)
        signal.siginterrupt(signum, True)  # Interrupts system calls, so that Python's handler runs.

    def size(self) -> int:
        """Size in bytes: positive once the signal arrived; -1 if the script closed the file."""
        with suppress(OSError):
            found = os.fstat(self._file)
            if os.path.samestat(found, self._empty):
                return found.st_size
        return -1

    def end(self) -> None:
        """Unregister the C handler; Python's remains."""
        import faulthandler

        faulthandler.unregister(self._signum)
        if self.size() >= 0:
            os.close(self._file)


class InterruptGuard:
    """Ignores a first Ctrl-C, and repeats of it, while the run is being closed.

    The process is about to end, and an interrupt would lose the run's results. A handler installed
    by the script is left alone.
    """

    def __init__(self) -> None:
        self._until = 0.0
        self._taken = self._ignores_next = False

    def begin(self, interrupted: bool, *, closing: bool = False) -> None:
        """Install the handler, if SIGINT has Python's default one.

        Args:
            interrupted: A Ctrl-C has just arrived; repeats of it are ignored.
            closing: The script and its threads have ended; the next Ctrl-C is ignored.
        """
        self._ignores_next = closing
        if threading.current_thread() is not threading.main_thread():
            return  # Python lets only the main thread set handlers.
        if interrupted:
            self._until = monotonic() + ECHO_SECONDS
        if not self._taken and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._taken = True

    def end(self) -> None:
        """Restore the default if the handler is still voir's."""
        if self._taken and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._taken = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        now = monotonic()
        if now >= self._until:
            self._until = now + ECHO_SECONDS
            ignored, self._ignores_next = self._ignores_next, False
            if not ignored:
                signal.default_int_handler(signum, frame)
