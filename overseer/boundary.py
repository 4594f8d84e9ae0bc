"""The boundary between voir and other people's code: who is running, and what when it fails.

An error inside an instrument, a reducer or a subscriber is caught where voir calls it, reported
once with the culprit's name and its own last frame, and that callable is switched off. Only what
the user asked for passes through: stopping, aborting, ``.fail()`` and Ctrl-C.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import Problem, VoirError

Report = Callable[[Problem], None]

_HERE = os.path.dirname(os.path.abspath(__file__))
_OURS = (_HERE, os.path.join(os.path.dirname(_HERE), "voir") + os.sep)
_PLUMBING = ("giving", "reactivex", "ptera", "contextlib.py", "functools.py", "threading.py")


class StopProgram(BaseException):
    """Raised inside the script to end it early and in good order: exit status 0."""


class OverseerAbort(BaseException):
    """Raised by an instrument to fail the run with the exception it carries."""


class _Running(threading.local):
    who: str | None = None


_running = _Running()


def current() -> str | None:
    """The name of the instrument whose code is running on this thread, if one is."""
    return _running.who


@contextmanager
def acting(who: str) -> Iterator[None]:
    """Code within belongs to the instrument ``who``; subscriptions it makes carry its name."""
    before, _running.who = _running.who, who
    try:
        yield
    finally:
        _running.who = before


def asked_for(error: BaseException) -> bool:
    """Whether this error is the user's own wish, so that it must reach the script."""
    if isinstance(error, (StopProgram, OverseerAbort, KeyboardInterrupt, GeneratorExit)):
        return True
    return getattr(error, "__voir_asked__", False) is True


def _useful(filename: str) -> bool:
    if filename.startswith(_OURS) or filename.startswith("<frozen"):
        return False
    parts = filename.replace("\\", "/").split("/")
    return not any(part in _PLUMBING for part in parts[-3:])


def where(error: BaseException) -> str | None:
    """``file:line`` of the last frame that is neither voir's nor the plumbing's."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if _useful(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def said(error: BaseException) -> str:
    """The error in one line, as the last line of a traceback would put it."""
    try:
        text = traceback.format_exception_only(type(error), error)[-1].strip()
    except Exception:  # Somebody's __str__ raises; the type still tells something.
        text = type(error).__name__
    return text


def problem(slug: str, who: str, error: BaseException, doing: str = "failed") -> Problem:
    """The :class:`Problem` for an error caught at the boundary."""
    error = getattr(error, "explained", error)
    if isinstance(error, VoirError):
        return Problem(error.slug, who, error.what, where(error), error.remedy)
    return Problem(slug, who, f"{doing}: {said(error)}", where(error), SWITCHED_OFF)


SWITCHED_OFF = "It is switched off; the script goes on."


class Guarded:
    """A callable that reports its first error, then stays silent.

    Args:
        fn: The callable to protect.
        who: Whose it is, for the report.
        report: Where the report goes.
    """

    __slots__ = ("_fn", "_report", "alive", "who")

    def __init__(self, fn: Callable[..., object], who: str, report: Report) -> None:
        self._fn = fn
        self._report = report
        self.who = who
        self.alive = True

    def __call__(self, *args: object) -> object:
        """Call the function; ``None`` when it failed now or before."""
        if not self.alive:
            return None
        try:
            return self._fn(*args)
        except BaseException as error:
            if asked_for(error):
                raise
            self.alive = False
            self._report(problem("subscriber", self.who, error, "a subscriber failed"))
            return None


def name_of(fn: object) -> str:
    """What to call an instrument or subscriber in a message."""
    for attribute in ("__qualname__", "__name__"):
        name = getattr(fn, attribute, None)
        if isinstance(name, str):
            return name.rsplit("<locals>.", 1)[-1]
    inner = getattr(fn, "func", None)  # functools.partial
    return name_of(inner) if inner is not None else type(fn).__name__
