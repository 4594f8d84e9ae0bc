"""Signals: before one kills, the run is finalized."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from ..boundary import Guarded
from ..clock import monotonic
from ..timers import Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .hanging import Mark

_owner = os.getpid()

#: How often it is looked whether a signal has come while the main thread is in C, in seconds; the
#: second look that finds one acts.
LOOK = 0.5

#: A Ctrl-C so soon after another is the same keystroke, in seconds: a wrapper forwards it to what
#: the terminal has sent it to already.
ECHO = 0.25

#: A signal that comes while the run is closed changes nothing, for the process is about to end; a
#: second one so many seconds later ends it at once.
AGAIN = 1.0

Finalize = Callable[[int], object]


def in_child() -> bool:
    """Whether this is a forked child of the process that voir runs in: the run is not its own."""
    return os.getpid() != _owner


class _AsDefault(int):
    """A handler that ``signal.getsignal`` and ``signal.signal`` show as ``SIG_DFL``.

    They look a handler up among the members of ``signal.Handlers``, to which this is equal, while
    the interpreter calls whatever is not the very integer. So a script that keeps what was there,
    to call it from a handler of its own or to put it back, finds what it finds without voir.
    """

    handle: Callable[[int, FrameType | None], None]

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        self.handle(signum, frame)


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

    def __init__(self, finalize: Finalize, closing: Callable[[], bool] = bool) -> None:
        self._finalize, self._closing, self._ignored = finalize, closing, 0.0
        self._handler = _AsDefault(signal.SIG_DFL)
        self._handler.handle = self._handle
        self._taken: list[int] = []
        self._marks: dict[int, Mark] = {}
        self._watch = Timer(LOOK, Guarded(self._look, "voir", lambda problem: None), LOOK, id)
        self._dying = threading.Lock()
        self._blocked = threading.local()

    def __enter__(self) -> DeadlySignals:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python lets only the main thread set handlers.
        for signum in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if _signal.getsignal(signum) == signal.SIG_DFL and signum not in self._taken:
                _signal.signal(signum, self._handler)
                self._taken.append(signum)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._after_fork,
                after_in_child=self._in_child,
            )
        self._begin_to_watch()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.restore()
        # What is called at a fork lives on; the run is not to live on with it, nor the script's
        # module: python takes that apart more roughly than one that nobody holds on to.
        self._finalize, self._closing = id, bool

    def restore(self) -> None:
        """Put the default back where the handler is still ours."""
        self._watch.__exit__(None, None, None)
        while self._taken:
            signum = self._taken.pop()
            if _signal.getsignal(signum) is self._handler:
                if signum in self._marks:
                    self._marks[signum].end()
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
        self._die(signum, lambda: signal.signal(signum, signal.SIG_DFL))

    def _die(self, signum: int, default: Callable[[], object]) -> None:
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
            default()
            os.kill(os.getpid(), signum)

    # A main thread that does not come back from C

    def _begin_to_watch(self) -> None:
        if sys.platform != "linux" or not self._taken:
            return
        # A thread that python has not set up yet would take a signal without leaving a mark.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)
        try:
            self._watch.__enter__()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _look(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)  # Forks begin this thread anew.
        for signum in tuple(self._taken):
            if _signal.getsignal(signum) is not self._handler:
                continue
            mark = self._marks.get(signum)
            if mark is not None and mark.made:
                self._late(mark)
            elif mark is None:  # Not before: a short script has no descriptors but its own.
                with suppress(ImportError, OSError):
                    from .hanging import Mark

                    self._marks[signum] = Mark(signum)

    def _late(self, mark: Mark) -> None:
        if mark.seen:
            from .hanging import restore_default

            self._die(mark.signum, lambda: restore_default(mark.signum))
        mark.seen = True


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
