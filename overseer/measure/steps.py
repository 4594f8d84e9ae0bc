"""The step model: from whatever a script shows of its loop to its steps, at little cost.

A boundary is noted with its time and worked off later, when the device has passed its mark, by
whoever calls :meth:`StepModel.drain` off the script's thread. Nothing of a batch is kept, nothing
waits, no list grows with the run.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Hashable
from typing import Any

from ..clock import Clock
from ..coroutines import coroutine
from ..errors import Problem
from ..ways import Gate, Offer, Quick
from .columns import Steps
from .counts import Counts
from .device import Device, LeftAlone, Mark
from .hearing import BEGAN, ENDED, MARK, TASK, WORK_PAIRS, Pairs, StepEnds
from .lane import Lane
from .notes import FULL, Note, Notes, What
from .rounds import take_rounds
from .threads import (
    ABANDON,
    ASIDE,
    BEGIN,
    BEGUN,
    BODY,
    COMPILED,
    END,
    ENTER,
    EXHAUSTED,
    GIVEN_UP,
    LEARNED,
    LEAVE,
    LOADED,
    LOADING,
    OTHER,
    PAUSE,
    RESTART,
    RESUME,
    SHUT,
    SHUTS,
    STEP,
    Threads,
    between,
)
from .timeline import Marks

Event = dict[str, Any]
Sink = Callable[[Steps], object]
#: A time of the host's clock, in nanoseconds, and the device's mark for it, if one is in use.
Moment = tuple[int, Mark | None]

#: Names of ``$wrap`` pairs that surround a step, or the work in one.
STEP_PAIRS = WORK_PAIRS | {"step"}
#: Names of ``$wrap`` pairs that surround what lies between steps.
OTHER_PAIRS = {"loading": (LOADING, LOADED), "loop": (ENTER, LEAVE), "pause": (PAUSE, RESUME)}
_CLOSING = (STEP, END)
#: Boundaries worked off at one go, at least; the script waits for no more than that.
CHUNK = 512
#: Boundaries worked off one by one, at least, before many at once are tried again.
SOME = 16
#: Boundaries that may wait for the device; beyond that the host's clock has to do.
LATE = 8192
#: The end of a step that comes so long before what came before it is of a clock that jumped.
JUMP_NS = 100_000_000
#: Raises, in C: there is no next item.
_EMPTY: Callable[[], object] = iter(()).__next__
#: Kinds of boundary, with their tasks and names, that are kept so that the like are the same.
WHATS = 256


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
        charge: Told the processor time that a thread of the script's works off what was noted.

    Attributes:
        note: Takes a note; set anew by the first, see :attr:`taker`.
        fresh: The list that notes are added to.
        sinks: Called with new steps.
        unfinished: Tells whether a step ends only because a stop passes; None: there is no stop.
        plain: Tells whether an event is an end of a pair, although it is a plain one.
        coroutines: Whether pairs of coroutines have been seen.
        delivered: Called when all of them have been: what a sink was asked to raise, it may.
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
        charge: Callable[[int], object] = id,
    ) -> None:
        self.now = clock.now_ns
        self._cpu = clock.cpu_ns
        self.thread = thread
        self._charge = charge
        self._report = report
        self._told: set[str] = set()
        self.counts = Counts(multiplier, batch_size, units, self.unsized)
        self.marks = Marks(find_device, self._lost)
        self._waiting = Notes()
        self.fresh = self._waiting.fresh
        self._whats: dict[What, What] = {}
        self._working = allocate_lock()
        self._worker: int | None = None
        self._threads = Threads(self.counts.units)
        self.note: Callable[[Note], object] = self._begin
        self.sinks: list[Sink] = []
        self.unfinished: Callable[[], bool] | None = None
        self.plain: Callable[[Event], bool] = _never
        self.coroutines = False
        self.delivered: Callable[[], object] = list
        self._put = self.fresh.extend

    @property
    def clock_name(self) -> str:
        """The clock that times the steps, as the run's record names it."""
        return self.marks.clock_name

    @property
    def taker(self) -> Callable[[Note], object]:
        """What takes notes from now on; looked up each time until there has been one."""
        return self.fresh.extend if self.note != self._begin else lambda note: self.note(note)

    @property
    def notes(self) -> int:
        """How many boundaries have been noted."""
        return self._waiting.done + self.waiting

    @property
    def waiting(self) -> int:
        """How many boundaries have been noted and not worked off."""
        return len(self._waiting)

    def offer(
        self, quick: Quick | None, gate: Gate, own: dict[str, Any], sized: bool = False
    ) -> Callable[[], object]:
        """Let inserted code note events by itself; returns what to call when that may begin.

        Args:
            quick: By which it does; None: it can't.
            gate: What the stream wants of each event.
            own: What stands behind names that are not the same for all.
            sized: The size of a batch is noted.
        """
        if quick is None or gate.inherits is not None:
            return list
        counts = self.counts

        def ready() -> bool:
            alike = not sized or (counts.multiplier == 1 and plain_tensor(counts.tensors))
            plainly = not gate.wanted and not self.coroutines
            return alike and plainly and self.marks.device is None

        def values() -> dict[str, Any]:
            torch: Any = sys.modules.get("torch")
            size = {"size": torch._C.TensorBase.size, "empty": _EMPTY} if sized else {}
            return {**own, **size, "up": gate.up, **self.common()}

        gate.notes(quick)
        quick.offer(Offer(ready, values, list))
        return quick.resume

    def common(self) -> dict[str, Any]:
        """What stands behind names that are the same for all notes of inserted code."""
        named = {"put": self._put, "now": self.now, "ident": self.thread, "id": id}
        return {**named, "frame": sys._getframe}

    def coroutine(self) -> int | None:
        """The coroutine that runs on the calling thread, if any.

        What is open when a pair of a thread begins is around it; not so with coroutines.
        """
        running = coroutine()
        if running is not None:
            self.coroutines = True
        return running

    def listeners(self) -> list[tuple[Callable[[Event], None], tuple[str, ...]]]:
        """What to listen to: callables, each with the keys its events have; none acts twice."""
        return [
            (StepEnds(self), ("step",)),
            (Pairs(self), ("$wrap",)),
            (self.on_batch, ("task", "batch")),
            (self.on_batch_size, ("task", "batch_size")),
            (self.on_progress, ("task", "progress")),
        ]

    def __call__(self, event: Event) -> None:
        """Hear any event; for those who listen to all of them."""
        if "$wrap" in event:
            self.on_wrap(event)
        elif ENDED in event:
            self.on_step_before(event)
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
        self._note(STEP, now, task, self.counts(event, task))

    def on_step_before(self, event: Event) -> None:
        """A step has ended a while ago; if it is known when it began, its loop did so then."""
        task = str(event.get("task", TASK))
        thread, ended = self.thread(), event[ENDED]
        if self.note == self._begin:
            self._hear()  # A mark that is made now would be late.
        if BEGAN in event:
            began, there = event[BEGAN]
            if there is not None:  # Before its loop began, it was only looked at.
                self.note((self.what(BEGUN, task), began, thread, None, there, None))
            self.note((self.what(ENTER, task), began, thread, None, None, None))
        items, mark = self.counts(event, task), event.get(MARK)
        self.note((self.what(STEP, task), ended, thread, items, ENDED, mark))

    def mark(self, now: int) -> Mark | None:
        """The device's mark for a step that has just ended, to be told of by a later event."""
        return self.marks.mark(now, self.thread(), True) if self.marks.device is not None else None

    def on_batch(self, event: Event) -> None:
        """``task`` with ``batch`` is the end of a step too, as it was in voir 0.2."""
        if "step" not in event and not self.plain(event):
            self.on_step(event)

    def on_batch_size(self, event: Event) -> None:
        """``task`` with ``batch_size`` likewise."""
        if "step" not in event and "batch" not in event and not self.plain(event):
            self.on_step(event)

    def on_wrap(self, event: Event) -> None:
        """One end of a pair: of a step, of a wait for a batch, of a loop, of a pause.

        Raises:
            Exception: It does not say which end it is, or an id would tell nothing apart later on.
        """
        now = self.now()
        wrap = event["$wrap"]
        name, begins, ident = wrap.get("name"), wrap["step"] == "begin", wrap.get("id")
        if type(ident) is not int:
            hash(ident)
        if name in STEP_PAIRS:
            task = event.get("task", TASK)
            if type(task) is not str:
                task = str(task)
            if begins:
                self._note(BEGIN, now, task, self.coroutine(), name, ident)
            elif name == "step" and without_batch(event):
                self._note(ABANDON, now, task, None, name, ident)
            else:
                self._note(END, now, task, self.counts(event, task), name, ident)
        elif name in OTHER_PAIRS:
            kind = OTHER_PAIRS[name][not begins]
            kind = EXHAUSTED if kind == LOADED and event.get("exhausted") else kind
            self._note(kind, now, TASK, None, _name(event.get("source")))

    def on_begin_before(self, event: Event) -> None:
        """A pair has begun a while ago."""
        task, wrap = str(event.get("task", TASK)), event["$wrap"]
        if self.note == self._begin:
            self._hear()  # A mark that is made now would be late.
        what = self.what(BEGIN, task, wrap.get("name"))
        self.note((what, event[BEGAN], self.thread(), None, wrap.get("id"), None))

    def on_progress(self, event: Event) -> None:
        """``progress`` at 0 of n: a loop of the task begins."""
        progress = event["progress"]
        if isinstance(progress, tuple | list) and len(progress) and progress[0] == 0:
            self._note(RESTART, self.now(), str(event["task"]), None)

    def loader_begins(self, source: Hashable) -> None:
        """The calling thread has ``source`` begin anew, whether it had more batches or not."""
        self._note(BEGUN, self.now(), TASK, None, source)

    def loader_other(self, source: Hashable) -> None:
        """What the calling thread knew by the name ``source`` is gone, and another has it."""
        self._note(OTHER, self.now(), TASK, None, source)

    def loader_shuts(self, source: Hashable, over: bool) -> None:
        """The calling thread begins to shut the workers of ``source`` down; or that is over."""
        self._note(SHUT if over else SHUTS, self.now(), TASK, None, source)

    def loader_left(self, source: Hashable) -> None:
        """The calling thread leaves the loop over ``source``, which has more batches."""
        self._note(GIVEN_UP, self.now(), TASK, None, source)

    def moment(self) -> Moment:
        """This one, for what is noted only when others have been told of it."""
        now, marks = self.now(), self.marks
        return now, None if marks.device is None else marks.mark(now, self.thread(), False)

    def loading_begins(self, source: Hashable = None, at: Moment | None = None) -> None:
        """The calling thread waits for a batch from ``source``, any name for a loader.

        Args:
            source: The name.
            at: Since when, as :meth:`moment` returned it; None: it is just asked for.
        """
        now, mark = self.moment() if at is None else at
        self.note((self.what(LOADING, TASK, source), now, self.thread(), None, None, mark))
        if len(self.fresh) > FULL:
            self.full()

    def loading_ends(self, source: Hashable = None, exhausted: bool = False) -> None:
        """The batch has come; or, ``exhausted``, the loader has no more."""
        self._note(EXHAUSTED if exhausted else LOADED, self.now(), TASK, None, source)

    def loaded(self, source: Hashable, begun: int, ended: int) -> None:
        """The calling thread waited for a batch a while ago."""
        self._note(LOADING, begun, TASK, None, source)
        self._note(LOADED, ended, TASK, None, source)

    def body_begins(self, began: int, own: bool = False) -> None:
        """The calling thread has begun its work on its first batch a while ago.

        Args:
            began: When, in nanoseconds.
            own: Whether every loop with steps would show its beginning, an evaluation's, too.
        """
        self._note(BODY, began, TASK, None, own or None)

    def evaluation_begins(self, began: int) -> None:
        """The calling thread has begun the first step of an evaluation a while ago."""
        self._note(ASIDE, began, TASK, None)

    def evaluation_ends(self, ended: int) -> None:
        """The calling thread's evaluation, whose last step has ended, went on until then."""
        self._note(ASIDE, ended, TASK, None, True)

    def learned(self) -> None:
        """The calling thread has learned from what it was given since the last step ended.

        A loader that is used up next was so in the midst of a step, of more batches than it had.
        """
        self._note(LEARNED, self.now(), TASK, None)

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

    def compiled(self) -> None:
        """The calling thread has waited for a compiler: the first call of something, or anew."""
        self._note(COMPILED, self.now(), TASK, None)

    def drain(self, rest: Callable[[], object] | None = None) -> None:
        """Work off what has been noted and the device has passed; cheap when there is nothing.

        Args:
            rest: Called between chunks, to let the script's threads go on.
        """
        if self._working.acquire(False):
            try:
                self._drain(rest)
            finally:
                self._working.release()

    def full(self) -> None:
        """A batch has been noted: work it off, on the thread of the script that noted it."""
        if self._working.acquire(False):
            began = self._cpu()
            try:
                self._drain(None)
            finally:
                self._working.release()
                self._charge(self._cpu() - began)

    def _drain(self, rest: Callable[[], object] | None) -> None:
        self._worker = get_ident()
        self.marks.look()
        self._waiting.take()
        steps = Steps()
        with self.marks.aside():
            # A part of the backlog each time, so that this keeps up with any script.
            while self._work_off(steps, max(CHUNK, self.waiting >> 3)):
                if rest is not None:
                    rest()
        steps.extend(self._threads.flush(everything=False))
        self._deliver(steps)

    def finish(self) -> None:
        """The run is over: wait for the device, and hand on every step there is."""
        # A signal's handler may have come in the middle of this thread's own work: better lost than
        # stuck. Another thread will come to an end of its work, on a busy machine too.
        patience = 1.0 if self._worker == get_ident() else 60.0
        if not self._working.acquire(timeout=patience):
            return
        try:
            steps = Steps()
            with self.marks.aside():
                if self.waiting:
                    self.marks.wait()
                self._waiting.take()
                while self._work_off(steps, CHUNK, late=0):
                    pass
            steps.extend(self._threads.flush())
            self._deliver(steps)
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
        self.note((self.what(kind, task, name), now, thread, items, ident, mark))
        if len(self.fresh) > FULL:
            self.full()

    def what(self, kind: int, task: str, name: Hashable = None) -> What:
        """What a note says happened: the same object for the same, so that it costs none."""
        what = (kind, task, name)
        if len(self._whats) > WHATS:
            self._whats.clear()
        return self._whats.setdefault(what, what)

    def _begin(self, note: Note) -> None:
        """Note the first boundary, marked by the device if one is in use by now."""
        self._hear()
        if self.marks.device is not None:
            what, now, thread = note[:3]
            note = (*note[:5], self.marks.mark(now, thread, what[0] in _CLOSING))
        self.note(note)

    def _hear(self) -> None:
        self.note = self.fresh.extend
        self.marks.look()

    def _work_off(self, steps: Steps, most: int, late: int = LATE) -> bool:
        """Work off about so many boundaries, into ``steps``; whether there may be more."""
        waiting = self._waiting
        left = min(most, waiting.ready)
        while left > 0:
            taken = 0
            if self.marks.device is None:
                taken = take_rounds(waiting, self._threads, steps)
                waiting.pass_over(taken)
            if taken == 0:
                taken = self._one_by_one(steps, left, late)
                if taken == 0:
                    return False
            left -= taken
        return waiting.ready > 0

    def _one_by_one(self, steps: Steps, most: int, late: int) -> int:
        """Work off boundaries up to the end of a step; how many, 0 if the device is not ready."""
        waiting, marks, threads = self._waiting, self.marks, self._threads
        known = at = None
        for taken in range(min(most, waiting.ready)):
            (kind, task, name), now, thread, items, ident, mark = waiting.first()
            if mark is not None and not marks.passed(mark):
                if len(waiting) <= late:
                    return taken
                mark = None
            waiting.pass_over(1)
            if thread != known or at is None:
                at, known = threads.of(thread, now), thread
            line = at.timeline
            if line.host_ns - now > JUMP_NS and (kind == END or (kind == STEP and ident is None)):
                line.host_ns = now  # The clock has jumped back: none of these is told late.
            ns = line.unmarked(now) if mark is None else marks.place(line, now, mark)
            if kind > RESTART:
                between(at.track, kind, ns, name if ident is None else ident)
                continue
            lane = at.lanes.get(task) or threads.lane(thread, at, task)
            if kind == STEP:
                if ident is not None and mark is None and lane.evidence.aside:
                    ns -= max(0, line.host_ns - now)  # Other boundaries have come since.
                steps.extend(lane.step(ns, items))
            elif kind == END:
                steps.extend(lane.end(ns, name, ident, items))
            elif kind == BEGIN:
                lane.begin(ns, name, ident, items)
            elif kind == ABANDON:
                lane.abandon(name, ident)
            else:
                lane.restart(ns)
            if taken >= SOME and _round_ends(kind, waiting, lane):
                return taken + 1
        return most

    def _deliver(self, steps: Steps) -> None:
        if steps:
            for sink in self.sinks:
                sink(steps)
            self.delivered()

    def unsized(self, reason: str) -> None:
        """How many items a batch holds is not known: it is told once."""
        self._tell(
            "batch-size",
            f"how many items a batch holds is not known: {reason}",
            "Give batch_size beside step, or write rate(batch_size_calc=function) in a voirfile.",
        )

    def _lost(self, error: BaseException) -> None:
        if isinstance(error, LeftAlone):
            what = (
                f"the device's clock is left alone ({error}); steps are timed by the host's:"
                " loading and compute are the script's time, not the device's"
            )
        else:
            why = f"{type(error).__name__}: {error}"
            what = f"the device's clock failed ({why}); steps are timed by the host's from here on"
        self._tell("device-clock", what, None)

    def _tell(self, slug: str, what: str, remedy: str | None) -> None:
        if self._report is not None and what not in self._told and len(self._told) < 8:
            self._told.add(what)
            self._report(Problem(slug, "step model", what, remedy=remedy))


def _never(event: Event) -> bool:
    return False


def plain_tensor(kinds: set[type]) -> bool:
    """Whether one of the kinds is torch's tensor itself."""
    return getattr(sys.modules.get("torch"), "Tensor", None) in kinds


def _round_ends(kind: int, waiting: Notes, lane: Lane) -> bool:
    """Whether what comes next may begin a round of the loop."""
    ends = kind == STEP or (kind == END and waiting.kind != STEP)
    return ends and not lane.pairs


def _name(source: Any) -> Hashable:
    """A name for a loader that does not keep it alive."""
    return source if source is None or isinstance(source, str | int) else id(source)


def without_batch(event: Event) -> bool:
    """An iterator's last turn: the pair was opened, but there was no batch left."""
    size = event.get("batch_size")
    given = "batch" in event or "batch_size" in event
    return given and size is None and event.get("batch") is None
