"""The boundary to users' code: catches failures, names the culprit, disables it.

voir catches an error inside an instrument, a reducer or a subscriber where it calls that code. It
reports the error once, with the culprit's name and its last own frame, and disables the callable.
Only requested stops pass through: a stop, an abort, ``.fail()``, Ctrl-C, and exceptions raised by
the script's signal handlers.
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

SWITCHED_OFF = "It is switched off; the script continues."

_HERE = os.path.dirname(os.path.abspath(__file__))
_HOME = os.path.dirname(_HERE)
_OURS = (_HERE + os.sep, os.path.join(_HOME, "voir") + os.sep, "<frozen ")
_INSTRUMENTS = os.path.join(_HOME, "instruments") + os.sep
_PLUMBING = {"giving", "reactivex", "ptera", "contextlib.py", "functools.py", "threading.py"}
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = {"site-packages", "dist-packages"}


class StopProgram(BaseException):
    """Raised inside the script to end it early and cleanly, with exit status 0.

    Attributes:
        agreed: All ranks of a job stop at this step, so they need not agree on one.
    """

    agreed = False


class OverseerAbort(BaseException):
    """Raised by an instrument to fail the run with the exception that it carries."""


ControlFlow = StopProgram | OverseerAbort
_stopping: list[tuple[Callable[[ControlFlow], object], Callable[[BaseException], bool]]] = []


@contextmanager
def on_stop(
    react: Callable[[ControlFlow], object],
    delay: Callable[[BaseException], bool] = lambda stop: False,
) -> Iterator[None]:
    """Call ``react(stop)`` when a subscriber raises a stop or abort within the block.

    Args:
        react: Called before the stop is raised in the script.
        delay: Returns whether the stop is put off, see :func:`put_off`.
    """
    both = react, delay
    _stopping.append(both)
    try:
        yield
    finally:
        _stopping.remove(both)


_running = threading.local()


def current() -> str | None:
    """Name of the instrument whose code is running on this thread, if any."""
    return getattr(_running, "who", None)


@contextmanager
def acting(who: str) -> Iterator[None]:
    """Attribute the code in the block, and its subscriptions, to the instrument ``who``."""
    before, _running.who = current(), who
    try:
        yield
    finally:
        _running.who = before


# Requested stops


def is_requested_stop(error: BaseException) -> bool:
    """Test whether the user or the script requested this error, so that it must be re-raised."""
    if isinstance(error, (StopProgram, OverseerAbort, KeyboardInterrupt)):
        return True
    return getattr(error, "__voir_requested__", False) is True or _from_a_signal(error)


def reraise_requested(error: BaseException) -> None:
    """Re-raise Ctrl-C and requested stops.

    A value's own code may raise ``SystemExit`` too, which this ignores. It is slow; do not call it
    for an ``Exception``.

    Raises:
        BaseException: ``error``, if it was requested or raised by a signal handler.
    """
    if not isinstance(error, Exception) and is_requested_stop(error):
        raise error


def announce_requested(error: BaseException) -> bool:
    """As :func:`is_requested_stop`; a stop or abort goes to :func:`on_stop` first."""
    if isinstance(error, ControlFlow) and _stopping:
        _stopping[-1][0](error)
    return is_requested_stop(error)


def put_off(error: BaseException) -> bool:
    """Test whether an error is a stop for which all ranks of the job are asked; then drop it."""
    if not isinstance(error, StopProgram) or not _stopping:
        return False
    _, delay = _stopping[-1]
    return delay(error)


def _from_a_signal(error: BaseException) -> bool:
    """Test whether one of the script's signal handlers raised it.

    The signal merely interrupted a subscriber. A script that sets itself a timeout with SIGALRM
    must receive it wherever the alarm goes off.
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


# Reports


def where(error: BaseException) -> str | None:
    """``file:line`` of the culprit's last frame, not counting voir and libraries that it calls."""
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
    """``file:line`` of the nearest caller outside voir and its plumbing.

    Args:
        frame: Start here instead of at this function's caller.
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
    """Test whether a frame runs an installed library, or a namedtuple constructor."""
    made = str(frame.f_globals.get("__name__")).startswith("namedtuple_")
    name = frame.f_code.co_filename
    return made or (_library(name) and not name.startswith(_OURS))


def in_plumbing(frame: FrameType) -> bool:
    """Test whether a frame runs voir's code, or library code between voir and the script."""
    made = str(frame.f_globals.get("__package__")).partition(".")[0]  # Code without a file.
    return made == __package__ or not _useful(frame.f_code.co_filename)


def of_voir(frame: FrameType) -> bool:
    """Test whether a frame runs voir's own code, stock instruments included."""
    return voir_file(frame.f_code.co_filename)


def command_file(name: str) -> bool:
    """Test whether a file is of voir's commands: a frame outside of its frames is no script's."""
    return name.startswith(os.path.join(_HERE, "cli") + os.sep)


def voir_file(name: str) -> bool:
    """Test whether a file is voir's own, stock instruments included."""
    return name.startswith((*_OURS[:2], _INSTRUMENTS))


def own_file(name: str) -> bool:
    """Test whether a file is the user's: not voir's, of no library, and no generated code."""
    return _useful(name) and not (voir_file(name) or _library(name) or name == "<string>")


def of_instruments(frame: FrameType) -> bool:
    """Test whether a frame runs code of a stock instrument."""
    return frame.f_code.co_filename.startswith(_INSTRUMENTS)


def said(error: BaseException) -> str:
    """The error on one line: type and message."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # A user's __str__ raises; the type is still useful.
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
        slug: Kind of problem, unless the error is a :class:`VoirError`.
        who: The culprit.
        error: The exception that it raised.
        doing: Start of the sentence: what failed.
        near: ``file:line`` to report if the traceback has no useful one.
    """
    place = where(error) or near
    if isinstance(error, VoirError):
        if near and place and place.startswith(_INSTRUMENTS):  # The error is in its arguments.
            place = near
        return Problem(error.slug, who, error.what, place, error.remedy)
    return Problem(slug, who, f"{doing}: {said(error)}", place, SWITCHED_OFF)


class Guarded:
    """A callable that reports its first error and does nothing from then on.

    Args:
        fn: The callable to protect.
        who: Its owner, for the report.
        report: Receives the report.

    Attributes:
        alive: Set to ``False`` to disable it.
        place: ``file:line`` of the code that registered it.
    """

    __slots__ = ("_failed", "_fn", "_report", "alive", "place", "who")

    def __init__(self, fn: Callable[..., object], who: str, report: Report) -> None:
        self._fn, self.who, self._report = fn, who, report
        self.alive, self._failed = True, False
        self.place = here()

    def __call__(self, *args: object) -> object:
        """Call the function; return ``None`` if it fails or has failed before."""
        if not self.alive:
            return None
        try:
            return self._fn(*args)
        except BaseException as error:
            if put_off(error):
                return None
            if announce_requested(error):
                raise
            self.failed("subscriber", error, "a subscriber failed")
            return None

    def failed(self, slug: str, error: BaseException, doing: str) -> None:
        """Disable it, and report why unless a failure was reported before."""
        # A failing operator of giving has already disposed of its subscription.
        self.alive, reported, self._failed = False, self._failed, True
        if not reported:
            self._report(problem(slug, self.who, error, doing, self.place))


def above(descriptor: int) -> int:
    """Duplicate ``descriptor`` to a number above those that the script's own files get.

    Raises:
        OSError: The limit on descriptors is lower.
    """
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200)


def name_of(fn: object) -> str:
    """Name of an instrument or subscriber in messages."""
    for attribute in ("__qualname__", "__name__"):
        name = getattr(fn, attribute, None)
        if isinstance(name, str):
            return name.rsplit("<locals>.", 1)[-1]
    inner = getattr(fn, "func", None)  # functools.partial
    return name_of(inner) if inner is not None else type(fn).__name__


def code_of(fn: Any) -> CodeType | None:
    """The code object that runs when ``fn`` is called; ``None`` if it is not Python code."""
    for _ in range(100):
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "func", None)
        if inner is None:
            break
        fn = inner
    # Look it up as Python does: an Enum member has no __call__, though its class has one.
    calls = (vars(base)["__call__"] for base in type(fn).__mro__ if "__call__" in vars(base))
    code = getattr(fn, "__code__", None) or getattr(next(calls, None), "__code__", None)
    return code if isinstance(code, CodeType) else None
