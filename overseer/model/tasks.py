"""Adds up a task's totals as its steps finish."""

from __future__ import annotations

from collections import deque

from .alike import AT_PARTS, Alike
from .events import PART_BETWEEN, PART_LOADING, PART_OTHER
from .pauses import MIN_PAUSE_NS, UNEXPLAINED_PAUSE, USUAL_STEPS, Pauses, Typical
from .steps import _NO_SEGMENTS, UNKNOWN, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Reasons for unknown items.
WHY_BATCH, WHY_INPUT, WHY_LEFT, WHY_GIVEN = "batch", "input", "left", "given"
WHY = {
    WHY_BATCH: "its batches have no size that can be read",
    WHY_INPUT: "no loader gives batches, and the models' inputs do not show a batch size",
    WHY_LEFT: "batches of several sizes were left over, or used in pieces",
    WHY_GIVEN: "its steps are given without a batch",
}
#: Maximum items of a step: floats are exact up to here.
MAX_ITEMS = 2.0**53
#: Maximum count of steps waiting for values from a device; the oldest stop waiting.
MAX_PENDING_STEPS = 4096
#: Maximum wait, by the ends of later steps; a device further behind has failed.
MAX_PENDING_NS = 60_000_000_000


class Losses:
    """First, last and lowest loss, and the count of NaN and infinite ones."""

    __slots__ = ("first", "last", "least", "n", "not_finite")

    def __init__(self) -> None:
        self.first = self.last = self.least = float("nan")
        self.n = self.not_finite = 0

    def add(self, loss: float) -> None:
        """Add the next loss."""
        if not self.n:
            self.first = loss
        self.n += 1
        self.last = loss
        if loss - loss != 0.0:  # NaN or infinite.
            self.not_finite += 1
        elif not self.least <= loss:
            self.least = loss

    def add_alike(self, n: int, last: float, least: float) -> None:
        """Add ``n`` finite losses after others."""
        self.n, self.last = self.n + n, last
        if not self.least <= least:
            self.least = least


class Task:
    """The totals of one task. Its latest step is held back, as later events may change it.

    Args:
        name: The task.
        emit: Called with each finished step, in order.
        together: Called with steps that were counted together.

    Attributes:
        steps: The number of steps, held ones included. ``items`` are theirs; NaN if unknown, for
            the reason ``why``, a key of :data:`WHY`.
        start: The begin of the first step; ``end``: the end of the last, ns.
        ns: Time of the finished steps.
        held: The latest step, until it is finished.
        losses: Losses of the steps; once the script gives losses, only those.
        given: Whether the script gives losses.
        pauses: Time that belongs to no step.
        loaded: Whether any step's loading was seen; ``loads``: by other events than pairs.
        unread: The number of given losses that could not be read.
        first_ns: Time of the first step.
        compiled: The number of steps in which something was compiled, and their time.
    """

    def __init__(
        self,
        name: str,
        emit: Callable[[Step], object],
        together: Callable[[Alike], object] | None = None,
    ) -> None:
        self.name, self._emit, self._together = name, emit, together
        self.steps, self.items, self.start, self.end, self.ns = 0, 0.0, 0, 0, 0
        self.why = ""
        self._known = 0.0  # The items of all steps but the latest.
        self.losses, self.pauses = Losses(), Pauses()
        self._told = UNKNOWN  # The last loss given since the latest step.
        self.given = self.loaded = self.loads = False
        self.first_ns = self.unread = 0
        self.compiled = [0, 0]
        self.held: Step | None = None
        self._usual, self._usual_wait = Typical(), Typical()
        self._waiting: deque[Step] = deque()
        self._done: dict[int, int] = {}  # By thread: when a device finished its last step.

    def close(self, thread: int, step: Step, items: float, n: int = 1) -> None:
        """Add a step that has ended, or ``n`` as one."""
        if self.held is not None:
            self.settle()
        elif not self.steps:
            self.start = step.start
        self.steps = number = self.steps + n
        if step.end > self.end:
            self.end = step.end
        if not 0.0 <= items <= MAX_ITEMS:  # Or unknown.
            items = UNKNOWN
            self.why = self.why or step.why or WHY_INPUT
        self._known, self.items = self.items, self.items + items
        step.task, step.number, step.thread = self.name, number, thread
        step.items, step.pause = items, 0
        step.told, self._told = self._told, UNKNOWN
        self.loads |= bool(step.took) or (step.waited and not step.between)
        if step.parts[PART_BETWEEN]:
            step.resolve(not self.loads)
        del step.parts[PART_BETWEEN:]
        self.held = step

    @property
    def timely(self) -> bool:
        """Whether no step waits for late values, and items can be summed in any order."""
        whole = self.items != self.items or self.items.is_integer()
        return whole and not self._waiting and (self.held is None or self.held.complete)

    def close_alike(self, alike: Alike) -> None:
        """Add steps like the held one, with the effect of closing and settling each."""
        self.settle()
        self.steps, self.items = self.steps + alike.n, self.items + alike.items
        alike.number = self.steps
        self.ns, self.end = self.ns + alike.ns, max(self.end, alike.end)
        if not self.given and alike.backwards:
            self.losses.add_alike(alike.n, alike.loss, alike.least)
        elif self.given and alike.told == alike.told:
            self.losses.add_alike(alike.n, alike.told, alike.least_told)
        self._usual.extend(alike.column(AT_PARTS + PART_OTHER, USUAL_STEPS))
        if alike.between:
            self._usual_wait.extend(alike.column(AT_PARTS + PART_BETWEEN, USUAL_STEPS))
        if self._together is not None:
            self._together(alike)

    def leave_unknown(self) -> None:
        """Make items unknown: it is not known which batches the steps used."""
        self.items, self.why = UNKNOWN, WHY_LEFT

    def resize(self, items: float) -> None:
        """Set the items of the latest step, unknown until now."""
        if self.held is not None and 0.0 <= items <= MAX_ITEMS:
            self.held.items = items
            self.items = self._known + items

    def take_back(self) -> Step | None:
        """Remove and return the first step, if it is the only one, for a stronger source."""
        step = self.held
        if step is not None and self.steps == 1:
            self.held, self.steps, self.items = None, 0, 0.0
            step.parts.append(0)
            return step
        return None

    def settle(self) -> None:
        """Finish the held step, once its late values have arrived."""
        step, self.held = self.held, None
        if step is None:
            return
        if not self._waiting and step.complete:
            self._finish(step)
            return
        waiting = self._waiting
        waiting.append(step)
        while len(waiting) > MAX_PENDING_STEPS or step.end - waiting[0].end > MAX_PENDING_NS:
            self._finish(waiting.popleft())
        self.arrived()

    def arrived(self) -> None:
        """Finish the steps that are complete after values have arrived, in order."""
        waiting = self._waiting
        while waiting and waiting[0].complete:
            self._finish(waiting.popleft())

    def end_all(self) -> None:
        """Finish all steps at the end, without values that are missing."""
        self.settle()
        while self._waiting:
            self._finish(self._waiting.popleft())

    def _finish(self, step: Step) -> None:
        if (step.segments or step.late) and step.join():
            step.timed = True
            self.run_on_device(step.thread, step.end, step.ns)
        other = step.parts[PART_OTHER]
        if other > MIN_PAUSE_NS and step.number > 1 and not step.compiled:
            over = self._usual.excess(other)
            if over:
                self.pause(UNEXPLAINED_PAUSE, over, step)
        self._usual.add(other)
        if step.between:  # It may be the time between two epochs.
            if step.between > MIN_PAUSE_NS and step.number > 1:
                over = self._usual_wait.excess(step.between)
                if over:
                    self.pause(UNEXPLAINED_PAUSE, over, step, PART_LOADING)
            self._usual_wait.add(step.between)
        self._add(step)

    def recount(self, step: Step) -> None:
        """Count a step that another process finished and recorded."""
        if not self.steps:
            self.start = step.start
        self.steps, self.items = step.number, self.items + step.items
        self.end = max(self.end, step.end)
        if step.told == step.told and not self.given:
            self.given, self.losses = True, Losses()
        if step.timed:
            self.run_on_device(step.thread, step.end, step.ns + step.pause)
        self._add(step)

    def run_on_device(self, thread: int, end: int, ns: int) -> None:
        """Move the end to that of a step on a device, which the script may run ahead of."""
        done = max(end, self._done.get(thread, 0) + ns)
        self._done[thread] = done
        self.end = max(self.end, done)

    def _add(self, step: Step) -> None:
        """Add a finished step to the totals, and emit it."""
        known = step.loss == step.loss or self.losses.n  # NaN counts after a known loss.
        if known and step.backwards and not (self.given or step.late or step.unknown_loss):
            self.losses.add(step.loss)
        if step.compiled:
            self.compiled[0] += 1
            self.compiled[1] += step.ns
        if step.number == 1:
            self.first_ns = step.ns
        if not self.loaded and step.loaded:
            self.loaded = True
        self.ns += step.ns
        self._emit(step)

    def pause(self, kind: str, ns: int, step: Step | None = None, part: int = PART_OTHER) -> None:
        """Add a pause; take it out of ``part`` of ``step``, if given."""
        self.pauses.add(kind, ns)
        if step is not None:
            step.parts[part] -= ns
            step.pause += ns
            step.segments = _NO_SEGMENTS  # Keep the host's times.

    def lost(self, loss: float) -> None:
        """Add a loss that the script gives: from then on only given losses count."""
        if not self.given:
            self.given, self.losses = True, Losses()
        self.losses.add(loss)
        self._told = loss
