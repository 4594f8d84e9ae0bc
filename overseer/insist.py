"""Ending a script that swallows its ending: an early stop gets through a bare ``except:``.

The stop is an exception, so that ``finally`` and ``with`` do their work. A script that catches
everything catches it too. Its handler may finish, and then, at the next line that runs outside of
any handler of the stop, the stop is raised again, until it has left the script.

A stop in a thread of the script's ends that thread first, then the script: python 3.11 spins in a
traced thread while an exception waits for the main one (``RESUME`` is begun anew as long as any
does), so the main thread is told when no thread is traced any more.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from opcode import opmap
from time import sleep
from types import FrameType
from typing import Any

from .boundary import StopProgram, Wish, in_library, in_standard, on_stop

#: The instruction that handlers begin with; before 3.11 there is none, nor the need to know.
_HANDLES = opmap.get("PUSH_EXC_INFO", -1)
#: Whether a traced thread spins while an exception waits for the main one.
_SPINS = sys.version_info[:2] == (3, 11)
#: Packages whose code is left alone; those that run the script are not among them.
_OWN = {__package__, f"{__package__}.measure"}
#: Seconds that threads have to be left before the script is ended whatever they do.
PATIENCE = 2.0


#: Tries to tell the main thread, a millisecond apart, before it is told in the midst of a wait.
TRIES = 1000


class Insistence:
    """Raises a stop again wherever it has been swallowed.

    Tracing is switched on when the stop is raised, not before: until then this costs nothing.

    Args:
        elsewhere: Has the main thread end by a stop or an abort that another has raised; returns
            whether it did. The second argument is whether to do so in the midst of a wait, too.
        begins: Called in each thread that a stop or an abort is raised in, before it is left.

    Attributes:
        stop: The stop that has reached the main thread.
    """

    def __init__(
        self, elsewhere: Callable[[Wish, bool], bool], begins: Callable[[], object]
    ) -> None:
        self.stop: StopProgram | None = None
        self._elsewhere, self._begins = elsewhere, begins
        self._main: Traced | None = None
        self._lock = threading.Lock()
        self._threads: dict[int, Traced] = {}
        self._told = self._seen = self._telling = False

    def begin(self, stop: Wish) -> None:
        """The stop has just been raised, in code that the script called."""
        if threading.get_ident() != threading.main_thread().ident:
            self._in_a_thread(stop)
        elif self.stop is None and isinstance(stop, StopProgram):
            self.stop = stop
            self._seen = True
            self._main = Traced(stop, None)
            self._main.begin(sys._getframe(1))

    def end(self) -> None:
        """The script has been left."""
        self._seen = True
        if self._main is not None:
            self._main.end()
            self.stop = self._main = None

    def _in_a_thread(self, wish: Wish) -> None:
        self._begins()
        frame = sys._getframe(2)
        outermost = _outermost(frame)
        if not isinstance(wish, StopProgram) or outermost is None:
            self._tell(wish, True)
            return
        ident = threading.get_ident()
        with self._lock:
            spins = _SPINS and self._told and not self._seen
            if ident in self._threads or spins:
                return
            traced = self._threads[ident] = Traced(wish, outermost, self._left)
            first = len(self._threads) == 1 and not self._told
        if first:
            threading.Thread(target=self._hurry, args=[wish], daemon=True).start()
        traced.begin(frame)

    def _left(self, traced: Traced) -> None:
        """A thread has left the script's code, or is let go."""
        with self._lock:
            self._threads = {k: v for k, v in self._threads.items() if v is not traced}
            if self._threads or self._telling:
                return
            self._telling = True
        # A pool's thread has other work to come, at which it is to be stopped again.
        if not self._tell(traced.stop, traced.ends or not _SPINS):
            tell = threading.Thread(target=self._go_on_telling, args=[traced.stop], daemon=True)
            tell.start()

    def _hurry(self, wish: StopProgram) -> None:
        """End the script although a thread is still at work, as soon as that is safe."""
        wait = threading.Event().wait
        wait(PATIENCE)
        for traced in list(self._threads.values()):
            traced.over = True  # It is let go where it next does anything.
        # A thread that does nothing that shows, and a script that waits: for it perhaps.
        while self._threads and in_library(_main_frame()):
            wait(0.05)
        with self._lock:
            self._threads.clear()
        self._tell(wish, True)

    def _tell(self, wish: Wish, late: bool) -> bool:
        """Have the main thread end, unless others see to that; returns whether that is done.

        Args:
            wish: By what.
            late: If it goes on waiting for something, too.
        """
        for tries in range(TRIES + 2):
            if self._try(wish, late and tries > TRIES):
                return True
            sleep(0.001)
        return False

    def _go_on_telling(self, wish: Wish) -> None:
        while not self._try(wish, False):
            sleep(0.002)

    def _try(self, wish: Wish, late: bool) -> bool:
        with self._lock:
            if not self._told and not self._seen and not (_SPINS and self._threads):
                self._told = self._elsewhere(wish, late)
            return self._told or self._seen


class Traced:
    """One thread that a stop is insisted on in.

    Args:
        stop: The stop.
        outermost: The script's own outermost frame in a thread; None on the main one.
        left: Called when that frame has been left, on the thread itself.

    Attributes:
        ends: With that frame, the thread ends.
        over: Do not insist any longer.
    """

    def __init__(
        self,
        stop: StopProgram,
        outermost: FrameType | None,
        left: Callable[[Traced], object] = id,
    ) -> None:
        self.stop = stop
        self.over = self._ended = False
        self.ends = _ends(outermost)
        self._outermost, self._left = outermost, left
        self._before = sys.gettrace(), sys.getprofile()
        self._unwinding: FrameType | None = None

    def begin(self, frame: FrameType | None) -> None:
        """Trace the calling thread from here on."""
        self._arm(frame)
        sys.setprofile(self._rearm)

    def end(self) -> None:
        """Leave the calling thread alone."""
        self._ended = True
        trace, profile = self._before
        sys.settrace(trace)
        sys.setprofile(profile)

    def _arm(self, frame: FrameType | None) -> None:
        while frame is not None:
            if not _ours(frame):
                frame.f_trace = self._trace
            frame = frame.f_back
        sys.settrace(self._trace)

    def _rearm(self, frame: FrameType, event: str, argument: object) -> None:
        if self.over or (event == "return" and frame is self._outermost):
            self._let_go()
        # Python drops a trace function that has raised; this one is to raise as often as needed.
        elif not self._ended and sys.gettrace() is None:
            self._arm(frame)

    def _let_go(self) -> None:
        if not self._ended:
            self._outermost = None
            self.end()
            self._left(self)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if self._ended or _ours(frame):
            return None
        if event == "exception":
            self._unwinding = frame
        elif event == "line" and not self._enters_handler(frame) and self._swallowed(frame):
            raise Again(self.stop)
        return self._trace

    def _swallowed(self, frame: FrameType) -> bool:
        """Whether code runs that is neither handling the stop nor cleaning up after it.

        The standard library's keeps the order that its own code needs: an event loop that does not
        come to call back waits for ever. Of what is freed on the way, python ignores what it
        raises: it would only not clean up.
        """
        error = sys.exc_info()[1]
        if in_standard(frame) or isinstance(error, GeneratorExit) or _frees(frame):
            return False
        return not due_to(error, self.stop)

    def _enters_handler(self, frame: FrameType) -> bool:
        # The first line after an exception is the handler's; python says so before it handles it.
        # Of one that goes on after a ``with`` it says nothing but where the handler begins.
        unwinding, self._unwinding = self._unwinding, None
        return frame is unwinding or frame.f_code.co_code[frame.f_lasti] == _HANDLES


def _ours(frame: FrameType) -> bool:
    """Whether the engine's own code runs; to trace it would make what it notes late."""
    return frame.f_globals.get("__package__") in _OWN


def _outermost(frame: FrameType | None) -> FrameType | None:
    """The frame of the script's own in which a thread's work began; None when there is none."""
    found = None
    while frame is not None:
        if not in_library(frame):
            found = frame
        frame = frame.f_back
    return found


def _ends(outermost: FrameType | None) -> bool:
    """Whether a thread has nothing to do behind its outermost frame."""
    frame = outermost.f_back if outermost is not None else None
    while frame is not None and frame.f_globals.get("__name__") == threading.__name__:
        frame = frame.f_back
    return frame is None


def _frees(frame: FrameType | None) -> bool:
    """Whether a frame is part of freeing an object."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


class Again(StopProgram):
    """The stop, raised anew after it has been swallowed.

    When it is swallowed itself nothing might be called for a while, and nobody notice. That python
    frees it then is a call.
    """

    def __init__(self, stop: StopProgram) -> None:
        super().__init__(*stop.args)
        self.stop = stop

    def __del__(self) -> None: ...


def due_to(error: BaseException | None, stop: Wish | None = None) -> bool:
    """Whether ``error`` is the stop, or any, or was raised while it was handled."""
    seen = 0
    while error is not None and seen < 100:
        if error is stop or (isinstance(error, Again) and error.stop is stop):
            return True
        if stop is None and isinstance(error, Wish):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


@contextmanager
def insisting(
    elsewhere: Callable[[Wish, bool], bool], begins: Callable[[], object]
) -> Iterator[Insistence]:
    """Within, a stop that a subscriber raises is insisted on.

    Args:
        elsewhere: Has the main thread end by what another has raised: see :class:`Insistence`.
        begins: Called in each thread that something is raised in.
    """
    insistence = Insistence(elsewhere, begins)
    with on_stop(insistence.begin):
        try:
            yield insistence
        finally:
            insistence.end()
