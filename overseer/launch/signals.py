"""Signals: before one kills, the run is finalized; and one wakes the main thread."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_owner = os.getpid()

Finalize = Callable[[int], object]
Answer = Callable[[FrameType], object]


def in_child() -> bool:
    """Whether this is a forked child of the process that voir runs in: the run is not its own."""
    return os.getpid() != _owner


class DeadlySignals:
    """While entered, SIGTERM and SIGHUP call ``finalize(signum)`` before they kill.

    Only signals whose disposition is the default are taken, and a handler that the script installs
    itself wins. ``finalize`` runs on the main thread, on top of the script's stack: the script is
    not unwound, none of its ``finally`` blocks run, as without voir. A signal that arrives again
    meanwhile changes nothing (``timeout`` sends every signal twice).

    Args:
        finalize: Ends the run; whatever it raises, the process still dies of the signal.
    """

    def __init__(self, finalize: Finalize) -> None:
        self._finalize = finalize
        self._taken: list[int] = []
        self._dying = False
        self._blocked = threading.local()

    def __enter__(self) -> DeadlySignals:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python lets only the main thread set handlers.
        for signum in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(signum) is signal.SIG_DFL:
                signal.signal(signum, self._handle)
                self._taken.append(signum)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._after_fork,
                after_in_child=self._in_child,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.restore()
        # What is called at a fork lives on; the run is not to live on with it, nor the script's
        # module: python takes that apart more roughly than one that nobody holds on to.
        self._finalize = id

    def restore(self) -> None:
        """Put the default back where the handler is still ours."""
        while self._taken:
            signum = self._taken.pop()
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, signal.SIG_DFL)

    # Python drops the signals that a child has caught before it is set up. With the default they
    # would have killed it, so they must wait until it has the default.

    def _before_fork(self) -> None:
        if self._taken:
            self._blocked.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def _after_fork(self) -> None:
        if (mask := self._blocked.__dict__.pop("mask", None)) is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _in_child(self) -> None:
        self.restore()
        self._after_fork()

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._dying:
            return
        self._dying = True
        try:
            if not in_child():
                self._finalize(signum)
        finally:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)


class Knock:
    """While entered, other threads can have something done on the main one, even while it waits.

    Python wakes a thread that waits for a lock, or in ``select``, for nothing but a signal. The one
    that is used here is ignored unless somebody asks for it, and left to a script that does.
    """

    def __init__(self) -> None:
        self._signum: int | None = None
        self._answer: Answer | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Knock:
        self.begin()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def begin(self) -> None:
        """Enter, if this is the main thread; harmless when done twice."""
        signum = getattr(signal, "SIGURG", None)  # Windows has none, and no way to send it.
        if signum is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, self._handle)
            self._signum = signum
            os.register_at_fork(after_in_child=self._in_child)

    def close(self) -> None:
        """Leave."""
        with self._lock:  # Whoever is about to send the signal has sent it, or does not.
            self._answer = None
            self._restore()

    @property
    def asked(self) -> bool:
        """Whether an answer is still to come."""
        return self._answer is not None

    def ask(self, answer: Answer) -> None:
        """Have ``answer(frame)`` called on the main thread, on top of what it does in ``frame``.

        What it raises is raised there. It takes the place of an answer that is still to come.
        Nothing happens where the script has taken the signal for itself.
        """
        ident = threading.main_thread().ident
        with self._lock:
            if self._signum is None or ident is None:
                return
            if signal.getsignal(self._signum) == self._handle:
                self._answer = answer
                signal.pthread_kill(ident, self._signum)

    def _in_child(self) -> None:
        self._lock = threading.Lock()  # Whoever held it is not there.
        self._restore()

    def _restore(self) -> None:
        signum, self._signum = self._signum, None
        if signum is not None and signal.getsignal(signum) == self._handle:
            signal.signal(signum, signal.SIG_DFL)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        # No lock is taken here: the thread that this interrupts may hold it.
        answer, self._answer = self._answer, None
        if answer is not None and frame is not None and not in_child():
            answer(frame)
