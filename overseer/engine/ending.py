"""How a run ends: a stop that the script swallows is raised again; the end is announced once."""

from __future__ import annotations

import signal
import threading
from _thread import get_ident, start_new_thread

from ..boundary import ControlFlow, OverseerAbort, StopProgram, is_requested_stop, said
from ..boundary import problem as problem_of
from ..clock import sleep
from ..errors import Problem
from ..launch import exit_status
from ..timers import hidden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    from ..context import Context
    from ..measure.alarm import Alarm

#: How many characters of what a script's exception says are kept.
MAX_ERROR_CHARS = 500
#: How often a stop that is swallowed is raised again; then the script is let go.
MAX_RERAISES = 100
#: How long a thread of voir's waits for the next step, in seconds, before it interrupts the script.
INTERRUPT_AFTER = 1.0


class Stopping:
    """What a run was asked to end by.

    Args:
        alarm: Returns what calls at the next step.

    Attributes:
        requested: The stop or abort that was requested, if any.
        raised: Whether it was raised in the main thread.
        leaving: The main thread has left the script, and waits for others.
        over: The script has been left: nothing is raised any more.
        left: How often it may be raised again.
    """

    def __init__(self, alarm: Callable[[], Alarm]) -> None:
        self._alarm = alarm
        self.requested: BaseException | None = None
        self.leaving = self.over = False
        self.retries = MAX_RERAISES
        self.raised = False
        self._caught = ""
        # Before the script: gevent gives the main thread another ident.
        self._main = threading.main_thread().ident or 0

    def raising(self, stop: ControlFlow) -> None:
        """``stop`` is about to be raised on this thread, in code that the script called."""
        if self.over:
            return
        if get_ident() in hidden:
            self.request(stop)
            return
        self.requested = self.requested or stop
        if isinstance(stop, StopProgram):
            self._arm()
        if get_ident() == self._main:
            self.raised = True
        else:
            _quieten()
            if not self.leaving:
                interrupt(self._main)

    def request(self, error: BaseException) -> None:
        """Have the script end by what a thread of voir's raised: at its next step, if one comes."""
        if self.requested is None and not self.over:
            self.requested = error
            self._arm()
            start_new_thread(self._interrupt, ())

    def _interrupt(self) -> None:
        sleep(INTERRUPT_AFTER)
        if not (self.raised or self.leaving):
            interrupt(self._main)

    def _arm(self) -> None:
        if self.retries > 0:
            self._alarm().set("stop", 1, self._again)

    def _again(self) -> None:
        """At a recorded step, on the thread that made it."""
        stop = self.requested
        if self.over or stop is None:
            return
        self.retries -= 1
        self._see(stop)
        self._arm()
        self.raised |= get_ident() == self._main
        raise stop.with_traceback(None)

    def _see(self, stop: BaseException) -> None:
        """Note where it was swallowed: its traceback ends, above, with the frame that caught it."""
        traceback: TracebackType | None = stop.__traceback__
        if traceback is not None:
            code = traceback.tb_frame.f_code
            self._caught = f"{code.co_filename}:{traceback.tb_lineno}"

    def cause_of(self, error: BaseException | None) -> BaseException | None:
        """What the script has ended by: the stop, if ``error`` is what that came as.

        Of an abort that is the error that it carries.
        """
        if isinstance(error, KeyboardInterrupt) and self.requested is not None and not self.raised:
            error = self.requested
        return error.args[0] if isinstance(error, OverseerAbort) else error

    @property
    def caught_at(self) -> str:
        """``file:line`` where the script has caught the stop the last time; empty: unknown."""
        if self.requested is not None and self.raised:
            self._see(self.requested)
        return self._caught


def interrupt(ident: int) -> None:
    """Interrupt the main thread as Ctrl-C does, also while it waits for a lock or for events."""
    if callable(signal.getsignal(signal.SIGINT)) and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, signal.SIGINT)
        return
    import ctypes  # Where SIGINT is ignored, as behind an `&`.

    kind = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), kind)


def _quieten() -> None:
    """Threads that end by a stop do so without a word."""
    hook = threading.excepthook
    if getattr(hook, "quiet", False):
        return

    def quietly(args: Any) -> None:
        if not isinstance(args.exc_value, (StopProgram, OverseerAbort)):
            hook(args)

    quietly.quiet = True  # type: ignore[attr-defined]
    threading.excepthook = quietly


# The end


class RunEnding:
    """Finds out how a run has ended, and announces it, once.

    Args:
        context: The run; its outcome is written here.
        stopping: What the run was asked to end by.
        disarm: Called when the script has been left: nothing waits for steps any more.

    Attributes:
        announce: Says of the script's exception what python says; returns the exit status.
        before: Called with the exception right before that.
        late: What a reduction at the end has failed the run by.
    """

    def __init__(self, context: Context, stopping: Stopping, disarm: Callable[[], object]) -> None:
        self._context, self._stopping, self._disarm = context, stopping, disarm
        self.announce: Callable[[BaseException | None], int] = exit_status
        self.before: list[Callable[[BaseException | None], object]] = []
        self.late: BaseException | None = None

    def outcome(self, body: Callable[[], object]) -> tuple[object, BaseException | None]:
        """What ``body`` returns, and what it ended by: what was asked for, if that is it."""
        try:
            return body(), None
        except BaseException as error:
            return None, self._stopping.cause_of(error)

    def left(self, error: BaseException | None, restore: Callable[[], object]) -> None:
        """The script has been left by ``error``: announce it while the streams are open.

        Args:
            error: What it ended by; None: its end.
            restore: Called when that has been announced.
        """
        outcome, stopping = self._context.outcome, self._stopping
        if outcome.exit_status is not None:
            return
        if isinstance(error, StopProgram):
            outcome.stopped_early = outcome.stopped_early or _reason(error)
            error = None
        elif isinstance(stopping.requested, StopProgram):
            self._say_caught(stopping.requested)
        stopping.leaving = True
        for call in self.before:
            call(error)
        outcome.exit_status = self.announce(error)
        outcome.error = _raised(error)
        restore()
        stopping.over = True
        self._disarm()
        stop = stopping.requested
        if isinstance(stop, OverseerAbort) and not stopping.raised:
            self.fails(stop)  # It has reached other threads only.

    def _say_caught(self, stop: StopProgram) -> None:
        """The script has caught the stop: it has cleaned up, or gone on."""
        outcome, place = self._context.outcome, self._stopping.caught_at
        outcome.stopped_early = outcome.stopped_early or _reason(stop)
        if place:
            outcome.stopped_early += f", caught at {place}"
        if self._stopping.retries <= 0:
            what = f"the script has swallowed the stop {MAX_RERAISES} times, and went on to its end"
            remedy = "Let StopProgram pass: catch Exception instead of everything."
            self._context.report(Problem("stop-swallowed", "stop", what, place or None, remedy))

    def last(self, *acts: Callable[[], object]) -> None:
        """Do ``acts``; whatever one raises, those after it are done too."""
        for act in acts:
            try:
                act()
            except BaseException as error:
                # By a stop the script has ended already.
                if not isinstance(error, StopProgram) and not self.fails(error):
                    self._context.report(problem_of("finalize", "the end of the run", error))

    def fails(self, error: BaseException) -> bool:
        """Whether what a reduction raised at the end is to fail the run: ``.fail()``, ``abort``."""
        if not is_requested_stop(error):
            return False
        if not self._context.outcome.exit_status:
            self.late = self._stopping.cause_of(error)
            self._context.outcome.exit_status = exit_status(self.late)
        return True


def _raised(error: BaseException | None) -> str | None:
    """The exception that failed the script; None where it said with what status it ends."""
    if error is None or isinstance(error, SystemExit) or exit_status(error) < 0:
        return None
    return said(error)[:MAX_ERROR_CHARS]


def _reason(stop: StopProgram) -> str:
    value = stop.args[0] if stop.args else None
    return "ov.stop()" if value is None else f"ov.stop({value!r:.60})"
