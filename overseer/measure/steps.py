"""The step model: from whatever a script shows of its loop to its steps, at little cost.

A boundary is noted with its time and worked off later, when the device has passed its mark, by
whoever calls :meth:`StepModel.drain` off the script's thread. Nothing of a batch is kept, nothing
waits, no list grows with the run.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from ..clock import Clock
from ..errors import Problem
from .counts import Counts
from .device import Device, Mark
from .hearing import TASK, TIMED, WORK_PAIRS, Heard, step_listener, wrap_listener
from .rounds import take_rounds
from .step import Step
from .threads import (
    ABANDON,
    BEGIN,
    END,
    ENTER,
    EXHAUSTED,
    LEAVE,
    LOADED,
    LOADING,
    PAUSE,
    RESTART,
    RESUME,
    STEP,
    Threads,
    between,
)
from .timeline import Marks

Event = dict[str, Any]
Sink = Callable[[list[Step]], object]
#: Kind, host time, thread, task, items, name of the pair or loader, id of the pair, device mark.
Note = tuple[int, int, int, str, int | None, Hashable, Hashable, Mark | None]

#: Names of ``$wrap`` pairs that surround a step, or the work in one.
STEP_PAIRS = WORK_PAIRS | {"step"}
#: Names of ``$wrap`` pairs that surround what lies between steps.
OTHER_PAIRS = {"loading": (LOADING, LOADED), "loop": (ENTER, LEAVE), "pause": (PAUSE, RESUME)}
_CLOSING = (STEP, END)
#: Boundaries worked off at one go, at least; the script waits for no more than that.
CHUNK = 64
#: Boundaries worked off one by one, at least, before many at once are tried again.
SOME = 16
#: Boundaries noted before the thread that notes one more works them off itself.
BATCH = 8192
#: Boundaries that may wait for the device; beyond that the host's clock has to do.
LATE = 8192


class StepModel:
    """Derives steps from events, whichever way the script or a voirfile shows them.

    Any thread may call it, once for every event; :meth:`listeners` says what it needs to hear.
    Whoever draws conclusions is a sink, and is handed lists of steps in order, one step late,
    for a step is judged when the next one has ended.

    Args:
        clock: The host's clock.
        multiplier: Items count this many times: gradient accumulation, device iterations.
        batch_size: Computes a batch's size; or the number of items in every step.
        units: ``"items"``, ``"tokens"``, or ``"auto"``: tokens where the first batch states them.
        find_device: Returns the accelerator in use or None; asked until there is one.
        report: Told once about each thing that could not be measured, and why.
        thread: Identifies the calling thread.

    Attributes:
        sinks: Called with each list of new steps.
    """

    def __init__(
        self,
        clock: Clock,
        multiplier: int = 1,
        batch_size: Callable[[Any], Any] | int | None = None,
        units: str = "auto",
        find_device: Callable[[], Device | None] | None = None,
        report: Callable[[Problem], object] | None = None,
        thread: Callable[[], int] = get_ident,
    ) -> None:
        self.now = clock.now_ns
        self._cpu = clock.cpu_ns
        self.thread = thread
        self._report = report
        self._told: set[str] = set()
        self.counts = Counts(multiplier, batch_size, units, self._unsized)
        self.marks = Marks(find_device, self._lost)
        self.queue: deque[Note] = deque()
        self._working = allocate_lock()
        self._threads = Threads(self.counts.units)
        self._worked_off = self._timed = self._timed_ns = self._drained_ns = 0
        self.note: Callable[[Note], object] = self._begin
        self.sinks: list[Sink] = []

    @property
    def clock_name(self) -> str:
        """The clock that times the steps, as the run's record names it."""
        return self.marks.clock_name

    @property
    def notes(self) -> int:
        """How many boundaries have been noted, for the account of voir's own cost."""
        return self._worked_off + len(self.queue)

    @property
    def cost_ns(self) -> float:
        """What the model has cost the run: notes as far as timed, and all work on them.

        The work is in processor time, for it may be done on a timer's thread.
        """
        each = self._timed_ns / self._timed if self._timed else 0.0
        return each * self.notes + self._drained_ns

    def listeners(self) -> list[tuple[Callable[[Event], None], tuple[str, ...]]]:
        """What to listen to: callables, each with the keys its events have; none acts twice."""
        return [
            (Heard(self.on_step, partial(step_listener, self)), ("step",)),
            (Heard(self.on_wrap, partial(wrap_listener, self)), ("$wrap",)),
            (self.on_batch, ("task", "batch")),
            (self.on_batch_size, ("task", "batch_size")),
            (self.on_progress, ("task", "progress")),
        ]

    def __call__(self, event: Event) -> None:
        """Hear any event; for those who listen to all of them."""
        if "$wrap" in event:
            self.on_wrap(event)
        elif "step" in event:
            self.on_step(event)
        elif "task" in event:
            if "batch" in event:
                self.on_batch(event)
            elif "batch_size" in event:
                self.on_batch_size(event)
            elif "progress" in event:
                self.on_progress(event)

    def on_step(self, event: Event) -> None:
        """A step has ended: ``step``, with ``batch`` or ``batch_size``."""
        if "$wrap" in event:
            return
        now = self.now()
        task = event.get("task", TASK)
        if type(task) is not str:
            task = str(task)
        # _note, written out: this is the hottest of paths, and calls are what it costs.
        thread, marks = self.thread(), self.marks
        mark = None if marks.device is None else marks.mark(now, thread, True)
        self.note((STEP, now, thread, task, self.counts(event, task), None, None, mark))
        if not len(self.queue) % TIMED:
            self.noted(now)

    def on_batch(self, event: Event) -> None:
        """``task`` with ``batch`` is the end of a step too, as it was in voir 0.2."""
        if "step" not in event:
            self.on_step(event)

    def on_batch_size(self, event: Event) -> None:
        """``task`` with ``batch_size`` likewise."""
        if "step" not in event and "batch" not in event:
            self.on_step(event)

    def on_wrap(self, event: Event) -> None:
        """One end of a pair: of a step, of a wait for a batch, of a loop, of a pause."""
        now = self.now()
        wrap = event["$wrap"]
        name = wrap.get("name")
        begins = wrap.get("step") == "begin"
        if name in STEP_PAIRS:
            task = event.get("task", TASK)
            if type(task) is not str:
                task = str(task)
            if begins:
                self._note(BEGIN, now, task, None, name, wrap.get("id"))
            elif name == "step" and _without_batch(event):
                self._note(ABANDON, now, task, None, name, wrap.get("id"))
            else:
                self._note(END, now, task, self.counts(event, task), name, wrap.get("id"))
        elif name in OTHER_PAIRS:
            kind = OTHER_PAIRS[name][not begins]
            kind = EXHAUSTED if kind == LOADED and event.get("exhausted") else kind
            self._note(kind, now, TASK, None, _name(event.get("source")))

    def on_progress(self, event: Event) -> None:
        """``progress`` at 0 of n: a loop of the task begins."""
        progress = event["progress"]
        if isinstance(progress, tuple | list) and len(progress) and progress[0] == 0:
            self._note(RESTART, self.now(), str(event["task"]), None)

    def loading_begins(self, source: Hashable = None) -> None:
        """The calling thread waits for a batch from ``source``, any name for a loader."""
        self._note(LOADING, self.now(), TASK, None, source)

    def loading_ends(self, source: Hashable = None, exhausted: bool = False) -> None:
        """The batch has come; or, ``exhausted``, the loader has no more."""
        self._note(EXHAUSTED if exhausted else LOADED, self.now(), TASK, None, source)

    def loop_begins(self) -> None:
        """The calling thread enters a loop: of steps, or one that is a pause to those around."""
        self._note(ENTER, self.now(), TASK, None)

    def loop_ends(self) -> None:
        """The innermost loop is left."""
        self._note(LEAVE, self.now(), TASK, None)

    def pause_begins(self) -> None:
        """What follows is no part of a step: a checkpoint, say."""
        self._note(PAUSE, self.now(), TASK, None)

    def pause_ends(self) -> None:
        """The pause is over."""
        self._note(RESUME, self.now(), TASK, None)

    def drain(self, rest: Callable[[], object] | None = None) -> None:
        """Work off what has been noted and the device has passed; cheap when there is nothing.

        Args:
            rest: Called between chunks, to let the script's threads go on.
        """
        if self._working.acquire(False):
            began = self._cpu()
            try:
                self.marks.look()
                steps: list[Step] = []
                left = len(self.queue)
                while left > 0:
                    # A part of the backlog, so that this keeps up with any script.
                    chunk = max(CHUNK, len(self.queue) >> 3)
                    if not self._work_off(steps, min(chunk, left)):
                        break
                    left -= chunk
                    if rest is not None:
                        rest()
                self._deliver(steps + self._threads.flush(everything=False))
            finally:
                self._drained_ns += self._cpu() - began
                self._working.release()

    def finish(self) -> None:
        """The run is over: wait for the device, and hand on every step there is."""
        if not self._working.acquire(timeout=1.0):
            return  # A signal's handler came in the middle of the work: better lost than stuck.
        try:
            if self.queue:
                self.marks.wait()
            steps: list[Step] = []
            while self._work_off(steps, CHUNK, late=0):
                pass
            self._deliver(steps + self._threads.flush())
        finally:
            self._working.release()

    def _note(
        self,
        kind: int,
        now: int,
        task: str,
        items: int | None,
        name: Hashable = None,
        ident: Hashable = None,
    ) -> None:
        thread, marks = self.thread(), self.marks
        mark = None if marks.device is None else marks.mark(now, thread, kind in _CLOSING)
        self.note((kind, now, thread, task, items, name, ident, mark))
        if not len(self.queue) % TIMED:
            self.noted(now)

    def noted(self, began: int) -> None:
        """Time the note just taken, and work off a batch of them."""
        self._timed_ns += self.now() - began
        self._timed += 1
        if not len(self.queue) % BATCH:
            self.drain()

    def _begin(self, note: Note) -> None:
        """Note the first boundary, marked by the device if one is in use by now."""
        self.note = self.queue.append
        self.marks.look()
        if self.marks.device is not None:
            kind, now, thread = note[:3]
            note = (*note[:7], self.marks.mark(now, thread, kind in _CLOSING))
        self.note(note)

    def _work_off(self, steps: list[Step], most: int, late: int = LATE) -> bool:
        """Work off about so many boundaries, into ``steps``; whether there may be more."""
        queue, left = self.queue, min(most, len(self.queue))
        while left > 0:
            taken = 0
            if self.marks.device is None:
                taken = take_rounds(queue, self._threads, steps)
                self._worked_off += taken
            if taken == 0:
                taken = self._one_by_one(steps, left, late)
                if taken == 0:
                    return False
            left -= taken
        return len(queue) > 0

    def _one_by_one(self, steps: list[Step], most: int, late: int) -> int:
        """Work off boundaries up to the end of a step; how many, 0 if the device is not ready."""
        queue, marks, threads = self.queue, self.marks, self._threads
        known = at = None
        for taken in range(most):
            kind, now, thread, task, items, name, ident, mark = queue[0]
            if mark is not None and not marks.passed(mark):
                if len(queue) <= late:
                    return taken
                mark = None
            queue.popleft()
            self._worked_off += 1
            if thread != known or at is None:
                at, known = threads.of(thread, now), thread
            line = at.timeline
            ns = line.unmarked(now) if mark is None else marks.place(line, now, mark)
            if kind > RESTART:
                between(at.track, kind, ns, name)
                continue
            lane = at.lanes.get(task) or threads.lane(thread, at, task)
            if kind == STEP:
                steps += lane.step(ns, items)
            elif kind == END:
                steps += lane.end(ns, name, ident, items)
            elif kind == BEGIN:
                lane.begin(ns, name, ident)
            elif kind == ABANDON:
                lane.abandon(name, ident)
            else:
                lane.restart(ns)
            if kind in _CLOSING and taken >= SOME:
                return taken + 1
        return most

    def _deliver(self, steps: list[Step]) -> None:
        if steps:
            for sink in self.sinks:
                sink(steps)

    def _unsized(self, reason: str) -> None:
        self._tell(
            "batch-size",
            f"how many items a batch holds is not known: {reason}",
            "Give batch_size beside step, or a function that computes it from the batch.",
        )

    def _lost(self, reason: str) -> None:
        self._tell(
            "device-clock",
            f"the device's clock failed ({reason}); steps are timed by the host's from here on",
            None,
        )

    def _tell(self, slug: str, what: str, remedy: str | None) -> None:
        if self._report is not None and what not in self._told and len(self._told) < 8:
            self._told.add(what)
            self._report(Problem(slug, "step model", what, remedy=remedy))


def _name(source: Any) -> Hashable:
    """A name for a loader that does not keep it alive."""
    return source if source is None or isinstance(source, str | int) else id(source)


def _without_batch(event: Event) -> bool:
    """An iterator's last turn: the pair was opened, but there was no batch left."""
    size = event.get("batch_size")
    given = "batch" in event or "batch_size" in event
    return given and size is None and event.get("batch") is None
