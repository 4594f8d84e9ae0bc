"""How a run ends: finds out by what, once, and announces it."""

from __future__ import annotations

from ..boundary import OverseerAbort, StopProgram, asked_for, said
from ..boundary import problem as problem_of
from ..errors import Problem
from ..launch import exit_status
from .stopping import TIMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context
    from .stopping import Alarm, Stopping

#: How many characters of what a script's exception says are kept.
LONGEST = 500


class RunEnding:
    """Finds out how a run has ended, and announces it, once.

    Args:
        context: The run; its outcome is written here.
        stopping: What the run was asked to end by.
        alarm: Is switched off when the script has been left.

    Attributes:
        announce: Says of the script's exception what python says; returns the exit status.
        before: Called with the exception right before that.
        late: What a reduction at the end has failed the run by.
    """

    def __init__(self, context: Context, stopping: Stopping, alarm: Alarm) -> None:
        self._context, self._stopping, self._alarm = context, stopping, alarm
        self.announce: Callable[[BaseException | None], int] = exit_status
        self.before: list[Callable[[BaseException | None], object]] = []
        self.late: BaseException | None = None

    def outcome(self, body: Callable[[], object]) -> tuple[object, BaseException | None]:
        """What ``body`` returns, and what it ended by: what was asked for, if that is it."""
        try:
            return body(), None
        except BaseException as error:
            return None, self._stopping.meant(error)

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
        elif isinstance(stopping.wish, StopProgram):
            self._say_caught(stopping.wish)
        stopping.leaving = True
        for call in self.before:
            call(error)
        outcome.exit_status = self.announce(error)
        outcome.error = _raised(error)
        restore()
        stopping.over = True
        self._alarm.off()
        wish = stopping.wish
        if isinstance(wish, OverseerAbort) and not stopping.raised:
            self.fails(wish)  # It has reached other threads only.

    def _say_caught(self, stop: StopProgram) -> None:
        """The script has caught the stop: it has cleaned up, or gone on."""
        outcome, place = self._context.outcome, self._stopping.caught
        outcome.stopped_early = outcome.stopped_early or _reason(stop)
        if place:
            outcome.stopped_early += f", caught at {place}"
        if self._stopping.left <= 0:
            what = f"the script has swallowed the stop {TIMES} times, and went on to its end"
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
        if not asked_for(error):
            return False
        if not self._context.outcome.exit_status:
            self.late = self._stopping.meant(error)
            self._context.outcome.exit_status = exit_status(self.late)
        return True


def _raised(error: BaseException | None) -> str | None:
    """The exception that failed the script; None where it said with what status it ends."""
    if error is None or isinstance(error, SystemExit) or exit_status(error) < 0:
        return None
    return said(error)[:LONGEST]


def _reason(stop: StopProgram) -> str:
    value = stop.args[0] if stop.args else None
    return "ov.stop()" if value is None else f"ov.stop({value!r:.60})"
