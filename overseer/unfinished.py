"""Whether what marks the end of a step runs because a stop passes: the step is then unfinished."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

from .boundary import in_plumbing
from .coroutines import coroutine
from .insist import due_to


def unfinished() -> bool:
    """Whether a stop is on its way through the code that has called, or has closed it.

    What the script does in its handler of the stop is not: only the frames that the stop has come
    to are.
    """
    error = sys.exc_info()[1]
    if isinstance(error, GeneratorExit):  # It was within a loop that the stop has left.
        return True
    if error is None or not due_to(error):
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and in_plumbing(frame):
        frame = frame.f_back
    return any(each is frame for each in _frames(error.__traceback__))


def unfinished_since(place: tuple[int, int | None] | None) -> Callable[[], bool]:
    """As :func:`unfinished`, where so many steps were asked for, of whatever thread.

    Args:
        place: The thread, and the coroutine, if any, that made the last of them: what the others
            are in the midst of is no more.
    """
    if place is None:
        return unfinished
    return lambda: (get_ident(), coroutine()) != place or unfinished()


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next
