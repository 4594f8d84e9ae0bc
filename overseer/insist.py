"""Ending a script that swallows its ending: an early stop gets through a bare ``except:``.

The stop is an exception, so that ``finally`` and ``with`` do their work. A script that catches
everything catches it too. Its handler may finish, and then, at the next line that runs outside of
any handler of the stop, the stop is raised again, until it has left the script.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from opcode import opmap
from types import FrameType
from typing import Any

from .boundary import StopProgram, Wish, in_standard, on_stop

#: The instruction that handlers begin with; before 3.11 there is none, nor the need to know.
_HANDLES = opmap.get("PUSH_EXC_INFO", -1)


class Insistence:
    """Raises a stop again on the main thread wherever it has been swallowed.

    Tracing is switched on when the stop is raised, not before: until then this costs nothing.
    Other threads are not traced: python 3.11 spins in a traced thread while an exception waits for
    the main thread.

    Args:
        elsewhere: Told of a stop or an abort that is raised in another thread, once.
    """

    def __init__(self, elsewhere: Callable[[Wish], object]) -> None:
        self.stop: StopProgram | None = None
        self._elsewhere = elsewhere
        self._passed_on: Wish | None = None
        self._before: tuple[Any, Any] = (None, None)
        self._unwinding: FrameType | None = None

    def begin(self, stop: Wish) -> None:
        """The stop has just been raised, in code that the script called."""
        if threading.get_ident() != threading.main_thread().ident:
            if self._passed_on is not stop:
                self._passed_on = stop
                self._elsewhere(stop)
            return
        if self.stop is not None or not isinstance(stop, StopProgram):
            return
        self.stop = stop
        self._before = sys.gettrace(), sys.getprofile()
        self._arm(sys._getframe(1))
        sys.setprofile(self._rearm)

    def end(self) -> None:
        """The script has been left."""
        if self.stop is not None:
            trace, profile = self._before
            sys.settrace(trace)
            sys.setprofile(profile)
            self.stop = None

    def _arm(self, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_globals.get("__package__") != __package__:
                frame.f_trace = self._trace
            frame = frame.f_back
        sys.settrace(self._trace)

    def _rearm(self, frame: FrameType, event: str, argument: object) -> None:
        # Python drops a trace function that has raised; this one is to raise as often as needed.
        if self.stop is not None and sys.gettrace() is None:
            self._arm(frame)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_globals.get("__package__") == __package__:
            return None
        if event == "exception":
            self._unwinding = frame
        elif event == "line" and not self._enters_handler(frame) and self._swallowed(frame):
            raise Again(self.stop)  # type: ignore[arg-type]
        return self._trace

    def _swallowed(self, frame: FrameType) -> bool:
        """Whether code runs that is neither handling the stop nor cleaning up after it.

        The standard library's keeps the order that its own code needs: an event loop that does not
        come to call back waits for ever.
        """
        if self.stop is None or in_standard(frame):
            return False
        return not due_to(sys.exc_info()[1], self.stop)

    def _enters_handler(self, frame: FrameType) -> bool:
        # The first line after an exception is the handler's; python says so before it handles it.
        # Of one that goes on after a ``with`` it says nothing but where the handler begins.
        unwinding, self._unwinding = self._unwinding, None
        return frame is unwinding or frame.f_code.co_code[frame.f_lasti] == _HANDLES


class Again(StopProgram):
    """The stop, raised anew after it has been swallowed.

    When it is swallowed itself nothing might be called for a while, and nobody notice. That python
    frees it then is a call.
    """

    def __init__(self, stop: StopProgram) -> None:
        super().__init__(*stop.args)
        self.stop = stop

    def __del__(self) -> None: ...


def due_to(error: BaseException | None, stop: StopProgram) -> bool:
    """Whether ``error`` is the stop, or was raised while it was handled."""
    seen = 0
    while error is not None and seen < 100:
        if error is stop or (isinstance(error, Again) and error.stop is stop):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


@contextmanager
def insisting(elsewhere: Callable[[Wish], object]) -> Iterator[Insistence]:
    """Within, a stop that a subscriber raises is insisted on.

    Args:
        elsewhere: Told of a stop or an abort that is raised in another thread, once.
    """
    insistence = Insistence(elsewhere)
    with on_stop(insistence.begin):
        try:
            yield insistence
        finally:
            insistence.end()
