"""Ends the process as the script ended: announces the ending first, then exits.

Between the two the run is finalized, so that what voir prints stands after the script's traceback,
and python itself still does everything that comes after: threads, ``atexit``, flushing, status.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import contextmanager
from functools import wraps
from types import FrameType, TracebackType

from ..boundary import chain, entries_of
from ..errors import VoirError
from .program import hand_back, mend, started_as_command, unmend
from .signals import Echoes, in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .program import Program

_OURS = {"overseer", "voir"}
_excepthook = sys.__excepthook__  # Scripts have been seen to replace it.


def exit_status(error: BaseException | None) -> int:
    """What ``subprocess`` would report for a script that ended like this; -2: died of SIGINT."""
    if error is None:
        return 0
    if isinstance(error, SystemExit) and not sys.flags.inspect:
        code = _code(error)
        if not isinstance(code, int):
            return 0 if code is None else 1
        return code & 0xFF if -(2**63) <= code < 2**63 else 255
    return -2 if type(error) is KeyboardInterrupt else 1


def _code(error: SystemExit) -> object:
    try:
        return error.code
    except BaseException:
        return error  # Python prints the exception itself when it has no usable code.


class Ending:
    """Ends the process as python would have, given what ended the script."""

    def __init__(self) -> None:
        self._announced: BaseException | None = None
        self._final: BaseException | None = None
        self._echoes = Echoes()

    def announce(self, error: BaseException | None, program: Program | None = None) -> int:
        """Say on stderr what python says about ``error``, then wait for the script's threads.

        Once for each error, before the run is finalized, and outside of ``except``: a hook of the
        script's must not find ``error`` being handled. About a :class:`VoirError` nothing is said:
        it is not the script's.

        Args:
            error: What ended the script; ``None`` if it came to its end.
            program: The script, so that python's last step for it is done too.

        Returns:
            The exit status that the process will have, as :func:`exit_status` has it.
        """
        mend()
        if error is None or error is not self._announced:
            # Whether it was Ctrl-C that ended the script, whatever that made of it.
            interrupted = any(isinstance(one, KeyboardInterrupt) for one in _all_of(error))
            self._echoes.begin(interrupted)
            self._announced = self._final = error
            self._say(error)
            if program is not None and not isinstance(self._final, SystemExit):
                program.retire()
            self._echoes.end()  # Python lets it end the wait.
            interrupted |= not _wait_for_threads()
            if not in_child():
                self._echoes.begin(interrupted, closing=True)
        return exit_status(self._final)

    def leave(self, error: BaseException | None, status: int = 0, *, instead: bool = False) -> None:
        """Leave the process as after ``error``, or return when the script came to its end.

        Args:
            error: What ended the script.
            status: The exit status if the script's own is 0.
            instead: It is the exit status though the script has failed, unless by Ctrl-C.

        Raises:
            BaseException: The same error; python prints nothing about it any more.
            SystemExit: To set the exit status.
        """
        self._echoes.end()
        final = self._final if error is self._announced else error
        own = exit_status(final)
        if status and (own == 0 or (instead and own > 0)):
            final = SystemExit(status)
        elif final is not None:
            final = _leaving(final)
        elif sys.flags.inspect and started_as_command():
            _silence(None)  # It exits, of which python tells then.
        hand_back()
        unmend()
        if final is not None:
            raise final

    def _say(self, error: BaseException | None) -> None:
        if isinstance(error, SystemExit) and not sys.flags.inspect:
            _say_code(_code(error))
        elif error is not None and not isinstance(error, VoirError):
            peel(error)
            self._show(error)

    def _show(self, error: BaseException) -> None:
        """What python's ``PyErr_Print`` does, custom hooks and their errors included."""
        if sys.version_info >= (3, 12):
            sys.last_exc = error
        sys.last_type, sys.last_value = type(error), error
        sys.last_traceback = error.__traceback__
        try:
            if hasattr(sys, "excepthook"):
                sys.excepthook(type(error), error, error.__traceback__)
            else:
                _write("sys.excepthook is missing\n")
                _display(error)
            return
        except BaseException as raised:
            failure = raised
        peel(failure)
        if isinstance(failure, SystemExit) and not sys.flags.inspect:
            self._final = failure
            _say_code(_code(failure))
        else:
            _write("Error in sys.excepthook:\n")
            _display(failure)
            _write("\nOriginal exception was:\n")
            _display(error)


def _display(error: BaseException) -> None:
    _excepthook(type(error), error, error.__traceback__)


def _say_code(code: object) -> None:
    if code is None or isinstance(code, int):
        return
    try:
        text = str(code)
        if getattr(sys, "stderr", None) is None:
            _write(text)
        else:
            sys.stderr.write(text)
    except BaseException:
        pass  # Its __str__ fails, or the script's stderr does; python drops it too.
    _write("\n")


def _write(text: str) -> None:
    """Write to the script's stderr or, where that fails, to the process's."""
    try:
        sys.stderr.write(text)
    except BaseException:
        try:
            os.write(2, text.encode(errors="backslashreplace"))
        except OSError:
            pass  # Nobody can be told.


def _leaving(error: BaseException) -> BaseException:
    """What to raise so that python ends as after ``error`` but prints nothing about it."""
    if isinstance(error, SystemExit) and not sys.flags.inspect:  # Else python goes on.
        code = _code(error)
        return SystemExit(code if code is None or isinstance(code, int) else 1)
    _silence(error)
    return error


def _silence(error: BaseException | None) -> None:
    """Have python say nothing about what is raised next, and forget where voir has raised it."""
    hook = getattr(sys, "excepthook", None)
    traceback = error.__traceback__ if error is not None else None

    def silent(*exc_info: object) -> None:
        sys.excepthook = hook  # type: ignore[assignment]
        if error is not None:
            error.__traceback__ = sys.last_traceback = traceback

    sys.excepthook = silent


def _wait_for_threads() -> bool:
    """Wait for the script's threads as python does at the end; it then finds nothing to wait for.

    Their events are part of the run, so this comes before the run is finalized.

    Returns:
        Whether nothing has cut the wait short.
    """
    if in_child():
        return True  # Python will do it; there is no run to finalize here.
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException as error:  # Ctrl-C: python complains, and waits no longer.
        peel(error)
        _write(f"Exception ignored in: {threading!r}\n")
        _display(error)
        return False
    finally:
        # Instruments are still at work, and may import what registers there, as concurrent.futures
        # does; for what the script has to do at exit, it is over.
        threading._SHUTTING_DOWN = False  # type: ignore[attr-defined]
        atexit.register(setattr, threading, "_SHUTTING_DOWN", True)
    return True


# Tracebacks as python would have shown them: without voir's frames, with python's own


def peel(error: BaseException) -> None:
    """Take voir's frames out of ``error`` and of every exception that it leads to."""
    for one in _all_of(error):
        one.__traceback__ = chain(_kept(one.__traceback__))


def _all_of(error: BaseException | None) -> list[BaseException]:
    """The error and every exception that it leads to; scripts can tie chains into circles."""
    found: dict[int, BaseException] = {}
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in found:
            found[id(one)] = one
            waiting += [one.__cause__, one.__context__]
            waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
    return list(found.values())


def _kept(traceback: TracebackType | None) -> list[TracebackType]:
    """All entries but voir's, and but the importlib ones that python drops where none are."""
    kept: list[TracebackType] = []
    importing = False
    for entry in entries_of(traceback):
        if _is_ours(entry.tb_frame):
            importing = True
            while kept and _is_importlib(kept[-1].tb_frame):
                kept.pop()
        elif not (importing and _is_importlib(entry.tb_frame)):
            importing = False
            kept.append(entry)
    return kept


def _is_ours(frame: FrameType) -> bool:
    """Whether the frame runs code of voir's engine; instruments are not."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS


def _is_importlib(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")


# Another program in the script's place


@contextmanager
def before_exec(finalize: Callable[[], object]) -> Iterator[None]:
    """Within, ``finalize()`` is called before a program is executed that can be.

    The two functions by which all others of ``os`` do it are replaced: an audit hook would be
    called for all else that the script does too, and cannot be taken away. In a forked child, as
    of ``subprocess`` and its like, nothing is different.
    """
    functions = os.execv, os.execve
    ours = os.execv, os.execve = tuple(_finalizing(each, finalize) for each in functions)
    try:
        yield
    finally:
        if (os.execv, os.execve) == ours:  # Else the script has put something of its own there.
            os.execv, os.execve = functions


def _finalizing(execute: Any, finalize: Callable[[], object]) -> Any:
    @wraps(execute)
    def replace(path: Any, *args: Any, **kwargs: Any) -> Any:
        if not in_child() and _can_be(path):
            finalize()
        return execute(path, *args, **kwargs)

    return replace


def _can_be(path: Any) -> bool:
    """Whether it is a program; ``os.execvp`` tries one directory after the other."""
    try:
        return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
    except (OSError, TypeError, ValueError):
        return False
