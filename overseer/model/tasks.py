"""Totals of one task, as its steps are finished."""

from __future__ import annotations

from collections import deque

from .alike import PARTS, Alike
from .events import BETWEEN, LOADING, OTHER
from .pauses import LEAST_NS, UNEXPLAINED, USUAL, Pauses, Typical
from .steps import _NO_SEGMENTS, NAN, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Why the items of steps are unknown.
BATCH, INPUT, LEFT, GIVEN = "batch", "input", "left", "given"
WHY = {
    BATCH: "its batches have no size that can be read",
    INPUT: "no loader gives batches, and what the models are given does not tell",
    LEFT: "batches of several sizes were left over, or used in pieces",
    GIVEN: "its steps are given without a batch",
}
#: No step has more items; up to here a number has no fraction that is lost.
LARGEST = 2.0**53
#: Steps that wait for what comes later from a device; of more, the oldest go without.
PENDING = 4096
#: How long, up to the end of later steps; a device that is further behind has failed.
PATIENCE_NS = 60_000_000_000


class Losses:
    """First, last and lowest loss, and how many were no finite numbers."""

    __slots__ = ("first", "last", "least", "n", "not_finite")

    def __init__(self) -> None:
        self.first = self.last = self.least = float("nan")
        self.n = self.not_finite = 0

    def add(self, loss: float) -> None:
        """Take in the next."""
        if not self.n:
            self.first = loss
        self.n += 1
        self.last = loss
        if loss - loss != 0.0:  # NaN or infinite.
            self.not_finite += 1
        elif not self.least <= loss:
            self.least = loss

    def add_alike(self, n: int, last: float, least: float) -> None:
        """Take in ``n`` finite ones, behind others."""
        self.n, self.last = self.n + n, last
        if not self.least <= least:
            self.least = least


class Task:
    """One task's totals. Its latest step is held back until the next: that may change what it was.

    Args:
        name: The task.
        emit: Called with each finished step, in order.
        together: Called with those that were counted together.

    Attributes:
        steps: How many have finished or are held back; ``items`` of them: NaN: unknown, and
            ``why``, a key of :data:`WHY`.
        start: Where the first began, and ``end`` where the last ended, ns.
        ns: Of the finished steps.
        held: The latest step, unless it is finished.
        losses: Of the steps; of what the script gives, once it gives any.
        given: Whether losses are given.
        pauses: Time that is in no step.
        loaded: Whether the loading of any step was seen; ``loads``: otherwise than by pairs.
        unread: How many losses were given that cannot be read.
        first_ns: How long the first step took.
        compiled: How many steps something was compiled in, and their ns.
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
        self._told = NAN  # The last loss that was given since the latest step.
        self.given = self.loaded = self.loads = False
        self.first_ns = self.unread = 0
        self.compiled = [0, 0]
        self.held: Step | None = None
        self._usual, self._usual_wait = Typical(), Typical()
        self._waiting: deque[Step] = deque()
        self._done: dict[int, int] = {}  # By thread: when a device was done with its last step.

    def close(self, thread: int, step: Step, items: float, n: int = 1) -> None:
        """A step has ended, or ``n`` of them that are not told apart."""
        if self.held is not None:
            self.settle()
        elif not self.steps:
            self.start = step.start
        self.steps = number = self.steps + n
        if step.end > self.end:
            self.end = step.end
        if not 0.0 <= items <= LARGEST:  # Or unknown.
            items = NAN
            self.why = self.why or step.why or INPUT
        self._known, self.items = self.items, self.items + items
        step.task, step.number, step.thread = self.name, number, thread
        step.items, step.pause = items, 0
        step.told, self._told = self._told, NAN
        self.loads |= bool(step.took) or (step.waited and not step.between)
        if step.parts[BETWEEN]:
            step.resolve(not self.loads)
        del step.parts[BETWEEN:]
        self.held = step

    @property
    def timely(self) -> bool:
        """Whether no step waits for what comes later, and items can be added up in any order."""
        whole = self.items != self.items or self.items.is_integer()
        return whole and not self._waiting and (self.held is None or self.held.complete)

    def close_alike(self, alike: Alike) -> None:
        """Steps have ended that are like the held one: what closing and settling each comes to."""
        self.settle()
        self.steps, self.items = self.steps + alike.n, self.items + alike.items
        alike.number = self.steps
        self.ns, self.end = self.ns + alike.ns, max(self.end, alike.end)
        if not self.given and alike.backwards:
            self.losses.add_alike(alike.n, alike.loss, alike.least)
        elif self.given and alike.told == alike.told:
            self.losses.add_alike(alike.n, alike.told, alike.least_told)
        self._usual.extend(alike.column(PARTS + OTHER, USUAL))
        if alike.between:
            self._usual_wait.extend(alike.column(PARTS + BETWEEN, USUAL))
        if self._together is not None:
            self._together(alike)

    def leave_unknown(self) -> None:
        """Which batches the steps have used is not known."""
        self.items, self.why = NAN, LEFT

    def resize(self, items: float) -> None:
        """The latest step has so many items; they were not known."""
        if self.held is not None and 0.0 <= items <= LARGEST:
            self.held.items = items
            self.items = self._known + items

    def take_back(self) -> Step | None:
        """The first step, if it is the only one so far: something stronger tells of it."""
        step = self.held
        if step is not None and self.steps == 1:
            self.held, self.steps, self.items = None, 0, 0.0
            step.parts.append(0)
            return step
        return None

    def settle(self) -> None:
        """What is held back is finished, once all has come that comes later."""
        step, self.held = self.held, None
        if step is None:
            return
        if not self._waiting and step.complete:
            self._finish(step)
            return
        waiting = self._waiting
        waiting.append(step)
        while len(waiting) > PENDING or step.end - waiting[0].end > PATIENCE_NS:
            self._finish(waiting.popleft())
        self.arrived()

    def arrived(self) -> None:
        """Something has come from a device: steps that are complete now are finished, in order."""
        waiting = self._waiting
        while waiting and waiting[0].complete:
            self._finish(waiting.popleft())

    def end_all(self) -> None:
        """There is no more: what waits is finished by what is known."""
        self.settle()
        while self._waiting:
            self._finish(self._waiting.popleft())

    def _finish(self, step: Step) -> None:
        if (step.segments or step.late) and step.join():
            step.timed = True
            self.run_on_device(step.thread, step.end, step.ns)
        other = step.parts[OTHER]
        if other > LEAST_NS and step.number > 1 and not step.compiled:
            over = self._usual.excess(other)
            if over:
                self.pause(UNEXPLAINED, over, step)
        self._usual.add(other)
        if step.between:  # It may as well be what lies between two epochs.
            if step.between > LEAST_NS and step.number > 1:
                over = self._usual_wait.excess(step.between)
                if over:
                    self.pause(UNEXPLAINED, over, step, LOADING)
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
        known = step.loss == step.loss or self.losses.n  # NaN is a loss where others were known.
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

    def pause(self, kind: str, ns: int, step: Step | None = None, part: int = OTHER) -> None:
        """Count a pause; with ``step``, it was taken for a part of that."""
        self.pauses.add(kind, ns)
        if step is not None:
            step.parts[part] -= ns
            step.pause += ns
            step.segments = _NO_SEGMENTS  # It keeps the host's times.

    def lost(self, loss: float) -> None:
        """The script gives a loss: from here on these count, and no others."""
        if not self.given:
            self.given, self.losses = True, Losses()
        self.losses.add(loss)
        self._told = loss
