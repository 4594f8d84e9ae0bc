"""Ends the process as the script ended, in two steps: print the traceback, then exit.

The run is finalized in between, so that voir's output follows the script's traceback. Everything
after that is left to Python: threads, ``atexit``, flushing, exit status.
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
from .program import (
    reinstate_recursion_limit,
    remove_restored_builtins,
    restore_builtins,
    started_as_command,
)
from .signals import InterruptGuard, in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .program import Program

_OURS = {"overseer", "voir"}
_excepthook = sys.__excepthook__  # Kept here because some scripts replace it.


def exit_status(error: BaseException | None) -> int:
    """Exit status for an error, as ``subprocess`` reports it; -2 for death by SIGINT."""
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
        return error  # Without a usable code, Python prints the exception itself.


class Ending:
    """Ends the process as Python would for a given error."""

    def __init__(self) -> None:
        self._announced: BaseException | None = None
        self._final: BaseException | None = None
        self._interrupts = InterruptGuard()
        self._is_over = False

    def ignore_repeats(self, error: BaseException) -> None:
        """Ignore repeats of the Ctrl-C that has left the script, until :meth:`announce`."""
        restore_builtins()
        if not (self._is_over or in_child()) and _is_interrupt(error):
            self._interrupts.begin(True)

    def announce(self, error: BaseException | None, program: Program | None = None) -> int:
        """Print ``error`` to stderr as Python does, then wait for the script's threads.

        Call it before the run is finalized and outside ``except``, because a hook of the script
        must not see ``error`` being handled. A repeated error is printed once. A
        :class:`VoirError` is not printed, since it is not the script's.

        Args:
            error: The error that ended the script; ``None`` if it ran to completion.
            program: The script; its ``clear_main`` is called.

        Returns:
            The exit status, see :func:`exit_status`.
        """
        restore_builtins()
        self._is_over = True
        if error is None or error is not self._announced:
            interrupted = _is_interrupt(error)
            self._interrupts.begin(interrupted)
            self._announced = self._final = error
            self._say(error)
            if program is not None and not isinstance(self._final, SystemExit):
                program.clear_main()
            self._interrupts.end()  # Ctrl-C may interrupt the wait, as in Python.
            interrupted |= not _wait_for_threads()
            if not in_child():
                self._interrupts.begin(interrupted, closing=True)
        return exit_status(self._final)

    def leave(self, error: BaseException | None, status: int = 0, *, instead: bool = False) -> None:
        """Raise what ends the process like ``error``; return if the script ran to completion.

        Args:
            error: The error that ended the script.
            status: Exit status if the script's own is 0.
            instead: Use ``status`` even if the script failed, but not after Ctrl-C.

        Raises:
            BaseException: The same error, without a traceback printed by Python.
            SystemExit: Sets the exit status.
        """
        self._interrupts.end()
        final = self._final if error is self._announced else error
        own = exit_status(final)
        if status and (own == 0 or (instead and own > 0)):
            final = SystemExit(status)
        elif final is not None:
            final = _leaving(final)
        elif sys.flags.inspect and started_as_command():
            _silence(None)  # The command calls sys.exit(), which `python -i` would print.
        reinstate_recursion_limit()
        remove_restored_builtins()
        if final is not None:
            raise final

    def _say(self, error: BaseException | None) -> None:
        if isinstance(error, SystemExit) and not sys.flags.inspect:
            _say_code(_code(error))
        elif error is not None and not isinstance(error, VoirError):
            strip_frames(error)
            self._show(error)

    def _show(self, error: BaseException) -> None:
        """Do what ``PyErr_Print`` does, including custom hooks and their errors."""
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
        strip_frames(failure)
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
        pass  # __str__ or the script's stderr fails; Python ignores that, too.
    _write("\n")


def _write(text: str) -> None:
    """Write to the script's ``sys.stderr``; if that fails, to file descriptor 2."""
    try:
        sys.stderr.write(text)
    except BaseException:
        try:
            os.write(2, text.encode(errors="backslashreplace"))
        except OSError:
            pass


def _leaving(error: BaseException) -> BaseException:
    """Return an exception that makes Python exit as after ``error`` without printing it."""
    if isinstance(error, SystemExit) and not sys.flags.inspect:  # With -i, Python goes on.
        code = _code(error)
        return SystemExit(code if code is None or isinstance(code, int) else 1)
    _silence(error)
    return error


def _silence(error: BaseException | None) -> None:
    """Make Python print nothing about the next error, and restore its original traceback."""
    hook = getattr(sys, "excepthook", None)
    traceback = error.__traceback__ if error is not None else None

    def silent(*exc_info: object) -> None:
        sys.excepthook = hook  # type: ignore[assignment]
        if error is not None:
            error.__traceback__ = sys.last_traceback = traceback

    sys.excepthook = silent


def _wait_for_threads() -> bool:
    """Wait for the script's threads, as Python does at exit.

    Their events belong to the run, so this happens before the run is finalized.

    Returns:
        False if the wait was interrupted.
    """
    if in_child():
        return True  # Python waits for them; a child has no run to finalize.
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException as error:  # Ctrl-C: Python prints it and stops waiting.
        strip_frames(error)
        _write(f"Exception ignored in: {threading!r}\n")
        _display(error)
        return False
    finally:
        # Instruments still run, and may import modules that register exit functions with threading,
        # as concurrent.futures does. The script's own exit functions must see the flag set.
        threading._SHUTTING_DOWN = False  # type: ignore[attr-defined]
        atexit.register(setattr, threading, "_SHUTTING_DOWN", True)
    return True


# Tracebacks as Python would show them: without voir's frames


def strip_frames(error: BaseException) -> None:
    """Remove voir's frames from ``error`` and all exceptions reachable from it."""
    for one in _all_of(error):
        one.__traceback__ = chain(_kept(one.__traceback__))


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C ended the script, even if the script turned it into another error."""
    return any(isinstance(one, KeyboardInterrupt) for one in _all_of(error))


def _all_of(error: BaseException | None) -> list[BaseException]:
    """``error`` and all its causes, contexts and group members; chains may be circular."""
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
    """Entries without voir's, and without the importlib entries that Python would drop."""
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
    """True for frames of voir's engine, not for those of instruments."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS


def _is_importlib(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")


# exec()


@contextmanager
def before_exec(finalize: Callable[[], object]) -> Iterator[None]:
    """Within the context, call ``finalize()`` before the process executes another program.

    Replaces ``os.execv`` and ``os.execve``, which the other exec functions call. An audit hook
    would see every other event of the script, too, and cannot be removed. Forked children, such as
    those of ``subprocess``, are not affected.
    """
    functions = os.execv, os.execve
    ours = os.execv, os.execve = tuple(_finalizing(each, finalize) for each in functions)
    try:
        yield
    finally:
        if (os.execv, os.execve) == ours:  # Otherwise the script has replaced them itself.
            os.execv, os.execve = functions


def _finalizing(execute: Any, finalize: Callable[[], object]) -> Any:
    process = os.getpid()

    @wraps(execute)
    def replace(path: Any, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() == process and _can_be(path):
            finalize()
        return execute(path, *args, **kwargs)

    return replace


def _can_be(path: Any) -> bool:
    """True if ``path`` is executable; ``os.execvp`` also tries paths that do not exist."""
    try:
        return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
    except (OSError, TypeError, ValueError):
        return False
