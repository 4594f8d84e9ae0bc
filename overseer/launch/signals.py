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

#: Polling interval for pending signals while the main thread is in C, in seconds; the
#: second look that finds one acts.
LOOK = 0.5

#: A Ctrl-C so soon after another is the same keystroke, in seconds: a wrapper forwards it to what
#: the terminal has sent it to already.
ECHO = 0.25

#: A signal that comes while the run is closed changes nothing, for the process is about to end; a
#: second one so many seconds later ends it at once.
AGAIN = 1.0


def in_child() -> bool:
    """Whether this is a forked child of the process that voir runs in: the run is not its own."""
    return os.getpid() != _owner


class _AsDefault(int):
    """A handler that ``signal.getsignal`` and ``signal.signal`` show as ``SIG_DFL``.

    They look a handler up among the members of ``signal.Handlers``, to which this is equal, while
    the interpreter calls whatever is not the very integer. So a script that keeps what was there,
    to call it from a handler of its own or to put it back, finds what it finds without voir.
    """

    handle: Callable[[int], None]

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        self.handle(signum)


class DeadlySignals:
    """While entered, SIGTERM and SIGHUP call ``finalize(signum)`` before they kill.

    Only signals whose disposition is the default are taken, and a handler that the script installs
    itself wins. ``finalize`` runs on the main thread, on top of the script's stack: the script is
    not unwound, none of its ``finally`` blocks run, as without voir. A signal that arrives again
    meanwhile changes nothing (``timeout`` sends every signal twice).

    Python calls no handler while the main thread is in C. When that does not come back soon,
    ``finalize`` runs on a thread of voir's, if the C code lets another thread run python.

    Args:
        finalize: Ends the run; whatever it raises, the process still dies of the signal.
        closing: Whether the run is being closed, with all that is to be said of it.
    """

    def __init__(
        self, finalize: Callable[[int], object], closing: Callable[[], bool] = bool
    ) -> None:
        self._finalize, self._closing, self._ignored = finalize, closing, 0.0
        self._handler = _AsDefault(signal.SIG_DFL)
        self._handler.handle = self._die
        self._taken: list[int] = []
        self._marks: dict[int, ArrivalFile] = {}
        self._watch = Timer(LOOK, Guarded(self._look, "voir", lambda problem: None), LOOK, id)
        self._dying = threading.Lock()
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
            # A thread that python has not set up yet would take a signal without leaving a mark.
            self._block()
            try:
                self._watch.__enter__()
            finally:
                self._unblock()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._restore()
        # What is called at a fork lives on; the run is not to live on with it, nor the script's
        # module: python takes that apart more roughly than one that nobody holds on to.
        self._finalize, self._closing = id, bool

    def _restore(self) -> None:
        """Put the default back where the handler is still ours."""
        self._watch.__exit__()
        while self._taken:
            signum = self._taken.pop()
            if _signal.getsignal(signum) is self._handler:
                if signum in self._marks:
                    self._marks[signum].end()
                signal.signal(signum, signal.SIG_DFL)

    # Python drops the signals that a child has caught before it is set up. With the default they
    # would have killed it, so they must wait until it has the default.

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
        if not in_child() and self._closing():
            self._ignored = self._ignored or monotonic()
            if monotonic() < self._ignored + AGAIN:
                return
        if not self._dying.acquire(blocking=False):
            return
        try:
            if not in_child():
                self._finalize(signum)
        finally:
            restore(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    def _look(self) -> None:
        """Look for marks of signals: a main thread that does not come back from C."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)  # Forks begin this thread anew.
        for signum in tuple(self._taken):
            mark = self._marks.get(signum)
            if _signal.getsignal(signum) is not self._handler:
                continue
            if mark is None:  # Not before: a short script has no descriptors but its own.
                with suppress(OSError):
                    self._marks[signum] = ArrivalFile(signum)
            elif mark.seen and mark.size() > 0:
                import ctypes  # Python's own function is for the main thread alone.

                self._die(signum, ctypes.CDLL(None).signal)
            else:
                mark.seen = mark.size() > 0


class ArrivalFile:
    """Is made when ``signum`` arrives, before python's handler for it is told.

    It is what ``faulthandler`` writes, from a handler in C that python's lock does not hold up.

    Raises:
        OSError: No descriptor is left.

    Attributes:
        seen: Whether somebody has seen that it is made.
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
        signal.siginterrupt(signum, True)  # A wait has to end for python's handler to be called.

    def size(self) -> int:
        """More than 0 once the signal has come; -1 if the script has closed the descriptor."""
        with suppress(OSError):
            found = os.fstat(self._file)
            if os.path.samestat(found, self._empty):
                return found.st_size
        return -1

    def end(self) -> None:
        """Leave the signal to python's handler alone."""
        import faulthandler

        faulthandler.unregister(self._signum)
        if self.size() >= 0:
            os.close(self._file)


class Echoes:
    """While the run is closed, a Ctrl-C does nothing that is the first, or right behind another.

    It would cost what the run came to, and the process is about to end. A handler that the script
    has installed is left alone.
    """

    def __init__(self) -> None:
        self._until = 0.0
        self._taken = self._spares = False

    def begin(self, interrupted: bool, *, closing: bool = False) -> None:
        """Look out for them.

        Args:
            interrupted: There has just been a Ctrl-C.
            closing: The script and its threads have ended.
        """
        self._spares = closing
        if threading.current_thread() is not threading.main_thread():
            return  # Python lets only the main thread set handlers.
        if interrupted:
            self._until = monotonic() + ECHO
        if not self._taken and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._taken = True

    def end(self) -> None:
        """Put the default back where the handler is still ours."""
        if self._taken and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._taken = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        now = monotonic()
        if now >= self._until:
            self._until = now + ECHO
            spares, self._spares = self._spares, False
            if not spares:
                signal.default_int_handler(signum, frame)
