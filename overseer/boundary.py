"""The boundary to other people's code: names the culprit of a failure, and switches it off.

An error inside an instrument, a reducer or a subscriber is caught where voir calls it, reported
once with the culprit's name and its own last frame, and that callable is switched off. Only what
the user asked for passes through: stopping, aborting, ``.fail()``, Ctrl-C, and what a signal
handler of the script raises.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType

from .errors import Problem, VoirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Report = Callable[[Problem], None]

SWITCHED_OFF = "It is switched off; the script goes on."

_HERE = os.path.dirname(os.path.abspath(__file__))
_HOME = os.path.dirname(_HERE)
_OURS = (_HERE + os.sep, os.path.join(_HOME, "voir") + os.sep, "<frozen ")
_INSTRUMENTS = os.path.join(_HOME, "instruments") + os.sep
_PLUMBING = {"giving", "reactivex", "ptera", "contextlib.py", "functools.py", "threading.py"}
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = {"site-packages", "dist-packages"}


class StopProgram(BaseException):
    """Raised inside the script to end it early and in good order: exit status 0."""


class OverseerAbort(BaseException):
    """Raised by an instrument to fail the run with the exception it carries."""


ControlFlow = StopProgram | OverseerAbort
_stopping: list[Callable[[ControlFlow], object]] = []


@contextmanager
def on_stop(react: Callable[[ControlFlow], object]) -> Iterator[None]:
    """Within, ``react(stop)`` is called when a subscriber raises a stop or abort in the script."""
    _stopping.append(react)
    try:
        yield
    finally:
        _stopping.remove(react)


_running = threading.local()


def current() -> str | None:
    """The name of the instrument whose code is running on this thread, if one is."""
    return getattr(_running, "who", None)


@contextmanager
def acting(who: str) -> Iterator[None]:
    """Code within belongs to the instrument ``who``; subscriptions it makes carry its name."""
    before, _running.who = current(), who
    try:
        yield
    finally:
        _running.who = before


# What passes through


def is_requested_stop(error: BaseException) -> bool:
    """Whether this error is requested by the user or the script, so that it must reach it."""
    if isinstance(error, (StopProgram, OverseerAbort, KeyboardInterrupt)):
        return True
    return getattr(error, "__voir_requested__", False) is True or _from_a_signal(error)


def reraise_requested(error: BaseException) -> None:
    """Re-raise Ctrl-C and requested stops; a value's own code may raise ``SystemExit`` as well.

    Not to be called for an ``Exception``: it takes too long.

    Raises:
        BaseException: ``error``, if it was requested, a signal handler raised it, or an
            instrument's time is up.
    """
    if not isinstance(error, Exception) and is_requested_stop(error):
        raise error


def announce_requested(error: BaseException) -> bool:
    """The same, for an error on its way from a subscriber into the script."""
    if isinstance(error, ControlFlow) and _stopping:
        _stopping[-1](error)
    return is_requested_stop(error)


def _from_a_signal(error: BaseException) -> bool:
    """Whether a signal handler raised it, which only happened to interrupt a subscriber.

    A script that gives itself a timeout by SIGALRM must get it wherever the alarm goes off.
    """
    handlers = {code_of(signal.getsignal(n)) for n in signal.valid_signals()} - {None}
    return any(entry.tb_frame.f_code in handlers for entry in entries_of(error.__traceback__))


def entries_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def chain(entries: list[TracebackType]) -> TracebackType | None:
    """Link the entries into one traceback, the first one outermost."""
    following = None
    for entry in reversed(entries):
        entry.tb_next = following
        following = entry
    return following


# What is said about the rest


def where(error: BaseException) -> str | None:
    """``file:line`` of the culprit's own last frame: not voir's, nor that of a library it calls."""
    places = [(e.tb_frame.f_code.co_filename, e.tb_lineno) for e in entries_of(error.__traceback__)]
    useful = [place for place in places if _useful(place[0])]
    if useful:
        own = [place for place in useful if not _library(place[0])]
        name, line = (own or [place for place in useful if place[0] == useful[0][0]])[-1]
        return f"{name}:{line}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    return None


def here(frame: FrameType | None = None) -> str | None:
    """``file:line`` of the nearest caller that is not voir's nor the plumbing's.

    Args:
        frame: Whose caller; that of this function, when not given.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        if _useful(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _useful(filename: str) -> bool:
    if filename.startswith(_OURS):
        return False
    return _PLUMBING.isdisjoint(filename.replace("\\", "/").split("/")[-3:])


def _library(filename: str) -> bool:
    if filename.startswith(_INSTRUMENTS):
        return False
    return filename.startswith(_STANDARD) or not _INSTALLED.isdisjoint(filename.split(os.sep))


def of_library(frame: FrameType) -> bool:
    """Whether a frame runs code of an installed library's, or a constructor made by python's."""
    made = str(frame.f_globals.get("__name__")).startswith("namedtuple_")
    name = frame.f_code.co_filename
    return made or (_library(name) and not name.startswith(_OURS))


def in_plumbing(frame: FrameType) -> bool:
    """Whether a frame runs voir's code, or what that and the script call each other by."""
    made = str(frame.f_globals.get("__package__")).partition(".")[0]  # Code that has no file.
    return made == __package__ or not _useful(frame.f_code.co_filename)


def of_instruments(frame: FrameType) -> bool:
    """Whether a frame runs code of an instrument that comes with voir."""
    return frame.f_code.co_filename.startswith(_INSTRUMENTS)


def said(error: BaseException) -> str:
    """The error in one line: its type and its message."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # Somebody's __str__ raises; the type still tells something.
        text = ""
    name, module = type(error).__qualname__, type(error).__module__
    if module not in ("builtins", "__main__"):
        name = f"{module}.{name}"
    return f"{name}: {text}" if text else name


def problem(
    slug: str, who: str, error: BaseException, doing: str = "failed", near: str | None = None
) -> Problem:
    """The :class:`Problem` for an error caught at the boundary.

    Args:
        slug: Its kind, unless the error explains itself.
        who: The culprit.
        error: What it raised.
        doing: What it did when it raised: the beginning of the sentence.
        near: ``file:line`` to name when the error has no useful one.
    """
    place = where(error) or near
    if isinstance(error, VoirError):
        if near and place and place.startswith(_INSTRUMENTS):  # What it was given is at fault.
            place = near
        return Problem(error.slug, who, error.what, place, error.remedy)
    return Problem(slug, who, f"{doing}: {said(error)}", place, SWITCHED_OFF)


class Guarded:
    """A callable that reports its first error, then stays silent.

    Args:
        fn: The callable to protect.
        who: Whose it is, for the report.
        report: Where the report goes.

    Attributes:
        alive: Whether it is called at all; set it to ``False`` to switch it off.
        place: ``file:line`` of who asked for it to be called.
    """

    __slots__ = ("_failed", "_fn", "_report", "alive", "place", "who")

    def __init__(self, fn: Callable[..., object], who: str, report: Report) -> None:
        self._fn, self.who, self._report = fn, who, report
        self.alive, self._failed = True, False
        self.place = here()

    def __call__(self, *args: object) -> object:
        """Call the function; ``None`` when it failed now or before."""
        if not self.alive:
            return None
        try:
            return self._fn(*args)
        except BaseException as error:
            if announce_requested(error):
                raise
            self.failed("subscriber", error, "a subscriber failed")
            return None

    def failed(self, slug: str, error: BaseException, doing: str) -> None:
        """Switch it off and report why, unless that has been done."""
        # An operator of giving's that fails has disposed of its subscription by now.
        self.alive, reported, self._failed = False, self._failed, True
        if not reported:
            self._report(problem(slug, self.who, error, doing, self.place))


def above(descriptor: int) -> int:
    """A copy of ``descriptor`` above the numbers that the script's own files get.

    Raises:
        OSError: So many are not allowed.
    """
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200)


def name_of(fn: object) -> str:
    """What to call an instrument or subscriber in a message."""
    for attribute in ("__qualname__", "__name__"):
        name = getattr(fn, attribute, None)
        if isinstance(name, str):
            return name.rsplit("<locals>.", 1)[-1]
    inner = getattr(fn, "func", None)  # functools.partial
    return name_of(inner) if inner is not None else type(fn).__name__


def code_of(fn: Any) -> CodeType | None:
    """The code that runs in the end when ``fn`` is called; ``None`` when that is not Python."""
    for _ in range(100):
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "func", None)
        if inner is None:
            break
        fn = inner
    # Looked up as Python does it: an Enum's member has no __call__, though its class has one.
    calls = (vars(base)["__call__"] for base in type(fn).__mro__ if "__call__" in vars(base))
    code = getattr(fn, "__code__", None) or getattr(next(calls, None), "__code__", None)
    return code if isinstance(code, CodeType) else None
