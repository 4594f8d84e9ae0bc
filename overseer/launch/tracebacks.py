"""Tracebacks as python would have shown them: without voir's frames, with python's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

_OURS = {"overseer", "voir"}
#: Called with each exception that ends a script, to take out what instruments have put in.
menders: list[Callable[[BaseException], object]] = []


def peel(error: BaseException) -> None:
    """Take voir's frames out of ``error`` and of every exception that it leads to."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            for mend in tuple(menders):
                _mended(one, mend)
            one.__traceback__ = chain(_kept(one.__traceback__))
            waiting.extend(_related(one))


def _mended(error: BaseException, mend: Callable[[BaseException], object]) -> None:
    try:
        mend(error)
    except Exception:
        pass  # What is shown is the script's error, whatever becomes of its traceback.


def _related(error: BaseException) -> Iterator[BaseException]:
    for one in (error.__cause__, error.__context__):
        if one is not None:
            yield one
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions


def chain(entries: list[TracebackType]) -> TracebackType | None:
    """Link the entries into one traceback, the first one outermost."""
    following = None
    for entry in reversed(entries):
        entry.tb_next = following
        following = entry
    return following


def entries_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _kept(traceback: TracebackType | None) -> list[TracebackType]:
    """All entries but voir's, and but the importlib ones that python drops where none are."""
    kept: list[TracebackType] = []
    importing = False
    for entry in entries_of(traceback):
        if is_ours(entry.tb_frame):
            importing = True
            while kept and _is_importlib(kept[-1].tb_frame):
                kept.pop()
        elif not (importing and _is_importlib(entry.tb_frame)):
            importing = False
            kept.append(entry)
    return kept


def is_ours(frame: FrameType) -> bool:
    """Whether the frame runs code of voir's engine; instruments are not."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS


def _is_importlib(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")
