"""The end of a run: re-raises stops that the script swallows, and announces the end once."""

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

#: Characters kept of the message of a script's exception.
MAX_ERROR_CHARS = 500
#: A swallowed stop is raised again this many times; then the script may continue.
MAX_RERAISES = 100
#: Seconds to wait for the next step before the main thread is interrupted.
INTERRUPT_AFTER = 1.0


class Stopping:
    """The stop or abort that a run was requested to end with.

    Args:
        alarm: Returns the alarm, which calls back at the next step.

    Attributes:
        agreement: Asks the other ranks of the job to stop at one step, given a stop; returns
            whether they can be asked. None: this is the only process.
        requested: The stop or abort that was requested, if any.
        raised: True once it has been raised in the main thread.
        leaving: The main thread has left the script and waits for others.
        over: The script has been left; nothing is raised any more.
        retries: Number of times that it may still be raised again.
    """

    def __init__(self, alarm: Callable[[], Alarm]) -> None:
        self._alarm = alarm
        self.agreement: Callable[[StopProgram], bool] | None = None
        self.requested: BaseException | None = None
        self.leaving = self.over = False
        self.retries = MAX_RERAISES
        self.raised = False
        self._caught = ""
        # Before the script starts: gevent gives the main thread another ident.
        self._main = threading.main_thread().ident or 0

    def raising(self, stop: ControlFlow) -> None:
        """Note that ``stop`` is about to be raised on this thread, in code called by the script."""
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
            _silence_stops()
            if not self.leaving:
                interrupt(self._main)

    def put_off(self, error: BaseException) -> bool:
        """Whether the other ranks of the job are asked to stop with this one, at a later step."""
        if not isinstance(error, StopProgram) or error.agreed or self.over or self.leaving:
            return False
        return self.agreement is not None and self.requested is None and self.agreement(error)

    def request(self, error: BaseException) -> None:
        """End the script with an error of voir's thread: at its next step, or after a second."""
        if self.requested is None and not self.over and not self.put_off(error):
            self.requested = error
            _silence_stops()
            self._arm()
            start_new_thread(self._interrupt, ())

    def _interrupt(self) -> None:
        sleep(INTERRUPT_AFTER)
        if not (self.raised or self.leaving):
            interrupt(self._main)

    def _arm(self) -> None:
        if self.retries > 0:
            self._alarm().set("stop", 1, self._reraise)

    def _reraise(self) -> None:
        """Raise the stop again, on the thread that recorded a step."""
        stop = self.requested
        if self.over or stop is None:
            return
        self.retries -= 1
        self._note_catcher(stop)
        self._arm()
        self.raised |= get_ident() == self._main
        raise stop.with_traceback(None)

    def _note_catcher(self, stop: BaseException) -> None:
        """Note where the stop was caught: its traceback begins with the frame that caught it."""
        traceback: TracebackType | None = stop.__traceback__
        if traceback is not None:
            code = traceback.tb_frame.f_code
            self._caught = f"{code.co_filename}:{traceback.tb_lineno}"

    def cause_of(self, error: BaseException | None) -> BaseException | None:
        """The exception that ended the script: the requested stop, if ``error`` delivered it.

        For an abort it is the exception that the abort carries.
        """
        if isinstance(error, KeyboardInterrupt) and self.requested is not None and not self.raised:
            error = self.requested
        return error.args[0] if isinstance(error, OverseerAbort) else error

    @property
    def caught_at(self) -> str:
        """``file:line`` where the script last caught the stop; empty if unknown."""
        if self.requested is not None and self.raised:
            self._note_catcher(self.requested)
        return self._caught


def interrupt(ident: int) -> None:
    """Interrupt the main thread as Ctrl-C does, even while it waits for a lock or for events."""
    if callable(signal.getsignal(signal.SIGINT)) and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, signal.SIGINT)
        return
    import ctypes  # SIGINT is ignored, for example after `&` in a shell.

    kind = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), kind)


def _silence_stops() -> None:
    """Suppress the tracebacks of threads that a stop ends."""
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
    """Determines how a run has ended and announces it once.

    Args:
        context: The run; receives the outcome.
        stopping: The stop or abort that was requested, if any.
        disarm: Called once the script has been left; nothing waits for steps any more.

    Attributes:
        on_leave: Called with the exception that has left the script, before anything else is done.
        announce: Prints the script's exception as Python does; returns the exit status.
        before: Called with the exception just before that.
        late: The exception with which a reduction failed the run at its end.
    """

    def __init__(self, context: Context, stopping: Stopping, disarm: Callable[[], object]) -> None:
        self._context, self._stopping, self._disarm = context, stopping, disarm
        self.on_leave: Callable[[BaseException], object] = id
        self.announce: Callable[[BaseException | None], int] = exit_status
        self.before: list[Callable[[BaseException | None], object]] = []
        self.late: BaseException | None = None

    def outcome(self, body: Callable[[], object]) -> tuple[object, BaseException | None]:
        """Call ``body``; return its value, and the exception or requested stop that ended it."""
        try:
            return body(), None
        except BaseException as error:
            self.on_leave(error)
            return None, self._stopping.cause_of(error)

    def script_left(self, error: BaseException | None, restore: Callable[[], object]) -> None:
        """Announce the end of the script while the streams are still open.

        Args:
            error: The exception that ended the script, if any.
            restore: Called after the announcement.
        """
        outcome, stopping = self._context.outcome, self._stopping
        if outcome.exit_status is not None:
            return
        if isinstance(error, StopProgram):
            outcome.stopped_early = outcome.stopped_early or reason_of(error)
            error = None
        elif isinstance(stopping.requested, StopProgram):
            self._report_caught(stopping.requested)
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
            self.fail(stop)  # It was raised on other threads only.

    def _report_caught(self, stop: StopProgram) -> None:
        """Record that the script caught the stop, to clean up or to continue."""
        outcome, place = self._context.outcome, self._stopping.caught_at
        outcome.stopped_early = outcome.stopped_early or reason_of(stop)
        if place:
            outcome.stopped_early += f", caught at {place}"
        if self._stopping.retries <= 0:
            what = f"the script caught the stop {MAX_RERAISES} times and ran to its end"
            remedy = "Let StopProgram pass: catch Exception, not BaseException."
            self._context.report(Problem("stop-swallowed", "stop", what, place or None, remedy))

    def run_all(self, *acts: Callable[[], object]) -> None:
        """Call all ``acts`` in order, even if some raise."""
        for act in acts:
            try:
                act()
            except BaseException as error:
                # A stop has already ended the script.
                if not isinstance(error, StopProgram) and not self.fail(error):
                    self._context.report(problem_of("finalize", "the end of the run", error))

    def fail(self, error: BaseException) -> bool:
        """Fail the run if the error is a requested stop or ``.fail()``; return whether it is."""
        if not is_requested_stop(error):
            return False
        if not self._context.outcome.exit_status:
            self.late = self._stopping.cause_of(error)
            self._context.outcome.exit_status = exit_status(self.late)
        return True


def _raised(error: BaseException | None) -> str | None:
    """The exception that failed the script; None if it exited with a status or by a signal."""
    if error is None or isinstance(error, SystemExit) or exit_status(error) < 0:
        return None
    return said(error)[:MAX_ERROR_CHARS]


def reason_of(stop: StopProgram) -> str:
    """The reason of a stop that has no other one."""
    value = stop.args[0] if stop.args else None
    return "ov.stop()" if value is None else f"ov.stop({value!r:.60})"
