"""The fold: turns events into tasks and steps; nothing else counts steps.

It implements the rules of docs/measuring.md, which defines the terms; ``R8`` in a comment is rule 8
there. Each thread is folded separately, by a :class:`Lane`.
"""

from __future__ import annotations

from functools import cached_property

from ..recorder import sites as k
from .alike import Alike, read, same
from .declared import DeclaredSteps
from .events import (
    FIRST_KINDS,
    PART_BETWEEN,
    PART_FORWARD,
    PART_LOADING,
    PART_OF,
    PART_OTHER,
    RECORD,
)
from .later import LateValues
from .optimizers import Round
from .pauses import CHECKPOINT_PAUSE, DECLARED_PAUSE, EPOCH_PAUSE, EVALUATION_PAUSE
from .steps import UNKNOWN, LateValue, Segment, Step
from .tasks import WHY_BATCH, WHY_GIVEN, WHY_LEFT, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final


TRAIN, EVAL, INFERENCE = "train", "eval", "inference"
#: Maximum count of models, iterators and sizes remembered; and of held turns.
MAX_TRACKED, MAX_HELD = 1024, 16
_CALLS: Final = k.CALLS
_NO_BATCH = k.ENDED | k.FAILED


class Fold:
    """Folds the events of all threads, fed in order and in pieces of any size.

    Args:
        sites: The table of sites, indexed by number; it may grow.
        emit: Called with each finished step.
        method: ``step`` uses only marks, ``wrap`` only pairs; None: both (R21).
        first: The first site of this run; earlier ones belong to other runs of the process.
        together: Called with consecutive similar steps as one, instead of ``emit`` with each; None:
            ``emit`` is called with all steps.

    Attributes:
        tasks: Tasks by name, in the order in which they began.
        made: Whether an optimizer was created.
        graded: Whether gradients were computed without ``backward``, for an unknown purpose.
        time_first: Whether a model has layers with time in the first dimension (R14).
        lost: Whether structure events were lost: steps and items are unknown from then on.
        unused: The number of backwards without a step.
        together: The function called with steps that were counted together.
        unlike: A thread of which the C function misread the last step of these events.
    """

    def __init__(
        self,
        sites: Sequence[dict[str, Any]],
        emit: Callable[[Step], object] = lambda step: None,
        method: str | None = None,
        first: int = 0,
        together: Callable[[Alike], object] | None = None,
    ) -> None:
        self.sites, self._emit, self.method, self._first = sites, emit, method, first
        self.together = together if read is not None else None
        self.tasks: dict[str, Task] = {}
        self.lost = self.made = self.time_first = self.graded = False
        self.unused = 0
        self._kinds: list[int] = []
        self._plain = bytearray()  # Kinds, or 0 for events that similar steps may not have.
        self._closed: tuple[Lane, int, tuple[Any, ...] | None] | None = None
        self.unlike: Lane | None = None
        self._expected: dict[str, set[tuple[int, bool]]] = {}
        self.lanes: dict[int, Lane] = {}
        self._numbers, self._times = LateValues(UNKNOWN), LateValues((UNKNOWN, UNKNOWN))

    @property
    def told_by(self) -> str:
        """The source of steps: ``marks``, ``optimizers``, ``backwards`` or ``batches``."""
        if any(lane.told_tasks for lane in self.lanes.values()):
            return "marks"
        train = self.tasks.get(TRAIN)
        if train is None or not train.steps:
            return "batches"
        return "optimizers" if self.made else "backwards"

    def task(self, name: str) -> Task:
        """The totals of a task."""
        task = self.tasks.get(name)
        if task is None:
            task = self.tasks[name] = Task(name, self._emit, self.together)
        return task

    def feed(self, data: bytes, lost: int = 0) -> None:
        """Fold the next events.

        Args:
            data: Whole events of the structure ring.
            lost: The number of events lost before them.
        """
        self.lost |= lost > 0
        if len(self._kinds) < len(self.sites):
            self._know_sites()
        kinds, lanes, thread, lane = self._kinds, self.lanes, 0, None
        loading, forward, backward, optimizer = k.LOADING, k.FORWARD, k.BACKWARD, k.OPTIMIZER
        marked, failed, nested = k.MARKED, k.FAILED, k.IN_OPTIMIZER
        scaler, last, communication = k.SCALER, k.LAST_NESTING, k.COMMUNICATION
        start: int  # Types for mypyc, which would otherwise check each one at each use.
        value: float
        what: int
        site: int
        number: int
        low: int
        high: int
        depth: int
        flags: int
        at: int
        at, behind, unpack = 0, len(data), RECORD.unpack_from
        self._closed = self.unlike = None
        while at < behind:
            start, value, what, site, number, low, high, depth, flags = unpack(data, at)
            at += 32
            if number != thread or lane is None:
                thread = number
                lane = lanes.get(number) or self._new_lane(number)
            kind = kinds[site]
            ns = low + (high << 32) if high else low
            if (kind > last and kind != communication) or not kind:
                if site:
                    lane.rare(kind, start, ns, value, what, depth, flags, site)
                else:
                    lane = self._new_lane(number)  # A new thread reuses this number.
                if lane.closed:
                    at = self._count_alike(lane, data, at)
                continue
            if not lane.begun and not lane.begins(kind, start):
                continue
            if kind == loading:
                if not what:
                    lane.declared_loading(start, ns, flags)
                    continue
                if not depth:
                    if flags >= marked:
                        lane.before(start)
                    lane.asked(start, value, what, flags)
            elif kind == forward and not flags & failed:
                lane.forward(ns, value, what, flags)
            # A span's exclusive time (R17).
            turn, inside = lane.turn, lane.inside
            if flags >= marked:
                lane.on_device(kind, start, depth)
            parts = turn.parts
            if inside[depth + 1]:
                if ns > inside[depth + 1]:  # Otherwise an inner span's parent raised.
                    parts[PART_OF[kind]] += ns - inside[depth + 1]
                inside[depth + 1] = 0
            else:
                parts[PART_OF[kind]] += ns
            if depth:
                inside[depth] += ns
            else:
                gap = start - turn.end
                if gap > 0:
                    parts[lane.rest] += gap
                    if lane.rest == PART_LOADING:
                        lane.waited += gap
                elif start < turn.start:  # The first span, around the event that began time (R18).
                    turn.start = start
                turn.end = start + ns
            if kind == backward:
                if not flags & failed:
                    lane.backward(value, start, depth, flags, site)
            elif kind == optimizer:
                if not flags & (nested | failed):  # R1, R2
                    lane.pending = what
            elif kind != forward and kind != loading and kind != communication:
                lane.rare(kind, start, ns, value, what, depth, flags, site)
            if not depth and (
                lane.pending is not None or (kind == backward and not self.made) or kind == scaler
            ):
                lane.ended(kind, start + ns, flags)
            if lane.closed:
                at = self._count_alike(lane, data, at)
        if self._numbers.news or self._times.news:
            self._numbers.news = self._times.news = False
            for task in self.tasks.values():
                task.arrived()

    def _count_alike(self, lane: Lane, data: bytes, at: int) -> int:
        """After a step, count those that follow with the same events; return the position."""
        lane.closed = False
        last, state = self._closed, lane.state()
        self._closed = lane, at, state
        if last is None or state is None or last[0] is not lane or last[2] != state:
            return at
        if self.unlike is lane:
            return at
        alike = lane.alike(data, last[1], at, self._plain)
        if alike is None:
            return at
        self._closed = None
        return at + alike.n * (at - last[1])

    def _know_sites(self) -> None:
        """Read new sites: marks and pairs that the code contains are expected (R21)."""
        for number in range(len(self._kinds), len(self.sites)):
            row = self.sites[number]
            kind = int(row["kind"])
            self._kinds.append(kind)
            self._plain.append(kind if (row.get("task") or TRAIN) == TRAIN else 0)
            if kind in (k.STEP, k.PAIR) and number >= self._first:
                places = self._expected.setdefault(row.get("task") or TRAIN, set())
                places.add((kind, "selector" in row))

    def expects(self, told: DeclaredSteps, pairs: bool) -> bool:
        """Whether marks (or ``pairs`` too) are expected to define the steps of a task (R21)."""
        if told.overdue or told.task not in self._expected:
            return False
        places = self._expected[told.task]
        kinds = {kind for kind, probed in places if not (probed and told.by_script)}
        marks = k.STEP in kinds and self.method != "wrap"
        return marks or (pairs and k.PAIR in kinds and self.method != "step")

    def _new_lane(self, number: int) -> Lane:
        before = self.lanes.get(number)
        if before is not None:
            before.finish()
        lane = self.lanes[number] = Lane(self, number)
        return lane

    def finish(self) -> None:
        """Close everything held back, at the end."""
        for lane in self.lanes.values():
            lane.finish()
        for task in self.tasks.values():
            task.end_all()

    def steps(self, task: str | None = None) -> int:
        """The number of steps so far, held ones included.

        Args:
            task: The task; None: training, or all tasks if nothing trains.
        """
        found = self.tasks.get(task or TRAIN)
        held = sum(lane.held.get(task or TRAIN, 0) for lane in self.lanes.values())
        if task is None and not (held or self.made or (found is not None and found.steps)):
            return sum(one.steps for one in self.tasks.values())
        return (found.steps if found is not None else 0) + held

    # Going on elsewhere

    def snapshot(self) -> dict[str, Any]:
        """The state from which another fold can go on, as JSON holds it.

        Steps under way are not part of it: the other fold counts them from where it begins.
        """
        tellers = {str(number): lane.tellers for number, lane in list(self.lanes.items())}
        steps = {name: self.steps(name) for name in list(self.tasks)}
        return {"made": self.made, "steps": steps, "tellers": tellers}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from another fold's snapshot; this fold must be new."""
        self.made = bool(state.get("made"))
        for name, n in state.get("steps", {}).items():
            self.task(name).steps = n
        for number, tellers in state.get("tellers", {}).items():
            lane = self.lanes[int(number)] = Lane(self, int(number))
            lane.resume(tellers)

    # Late values

    def expect(self, site: int, start: int) -> LateValue:
        """Expect a number as a ``LATE`` event of this site and start."""
        late = LateValue()
        self._numbers.expect((site, start), late.take)
        return late

    def expect_loss(self, site: int, start: int, task: Task) -> None:
        """Expect a given loss as a ``LATE`` event."""
        self._numbers.expect((site, start), task.lost)

    def arrive(self, site: int, start: int, value: float) -> None:
        """Pass on an arrived number."""
        self._numbers.arrive((site, start), value)

    def expect_times(self, thread: int, start: int, gap: Segment, own: Segment | None) -> None:
        """Expect a device's times of an event, by thread and start: of the gap before, its own."""

        def take(times: tuple[float, float]) -> None:
            gap.ns = times[0]
            if own is not None:
                own.ns = times[1]

        self._times.expect((thread, start), take)

    def timed(self, thread: int, start: int, gap: float, ns: int) -> None:
        """Pass on arrived times; thread 0 means that no more will arrive."""
        if thread:
            self._times.arrive((thread, start), (gap, float(ns)))
        else:
            self._times.give_up()


def _sum(a: list[int], b: list[int]) -> list[int]:
    return [one + other for one, other in zip(a, b, strict=True)]


def _difference(a: list[int], b: list[int]) -> list[int]:
    return [one - other for one, other in zip(a, b, strict=True)]


class Lane:
    """Folds one thread's events, in order.

    Args:
        fold: The fold.
        number: The thread's number.

    Attributes:
        begun: Whether time has begun (R18).
        turn: The open turn.
        inside: Nanoseconds in spans within the open span, by depth.
        rest: The part that time outside of spans counts to; ``waited``: its time so far (R20).
        pending: An optimizer that has stepped within the open span (R2).
        closed: Whether a training step has just ended.
    """

    def __init__(self, fold: Fold, number: int) -> None:
        self._fold, self._number = fold, number
        self._told: dict[str, DeclaredSteps] = {}
        self._last_told: tuple[str, int] = ("", 0)  # Task and end of the last declared step.
        # Time of all turns that have ended, by part; and that at the last declared step.
        self._before = self._told_before = [0, 0, 0, 0, 0, 0, 0]
        self._inner: Step | None = None  # Contents of other tasks' steps (R25).
        self._declares: dict[int, tuple[Step, list[int], bool]] = {}  # Open pairs; time before.
        self._rest = PART_OTHER  # ``rest`` while no loop waits.
        self.turn = Step(0)
        self.begun = False
        self.inside = [0] * 257
        self.rest, self.waited = PART_OTHER, 0
        self.pending: int | None = None
        self._step: Step | None = None  # The turns of the open step.
        self._held: dict[int | None, Step] = {}  # Held turns, by loader (R6, R7).
        self._left: dict[int | None, list[float]] = {}  # Sizes of unused batches, by loader.
        self._mixed: dict[int | None, str] = {}  # Their task, if these sizes differ.
        self._last: list[float] = []  # Sizes of the last step's batches.
        self._source: int | None = None  # The last step's loader, and whether it goes on.
        self._goes_on = False
        self._round = Round(self._close)
        self._evaluation: Step | None = None
        self._learners: set[int] = set()
        self._iterators: dict[int, int] = {}
        self._ended: int | None = None  # The loader that ended last.
        self._broken_off: int | None = None  # A loader restarted within a step on its batches.
        self._seconds: set[int] = set()  # Second iterators over a loader in use (R11).
        self._second: tuple[int, float] | None = None  # Loader and size of a batch of these.
        self._backwards = 0  # Of the last step.
        self._scaled: float | LateValue | None = None  # The loss before GradScaler scaled it.
        self._zeroed = self._stepped = self._ambiguous = False
        self._looked: list[tuple[float, float, float] | None] = [None, None]  # Two steps (R8).
        self._gap: Segment | None = None
        self.closed = False

    @cached_property
    def _train(self) -> Task:
        return self._fold.task(TRAIN)

    @property
    def told_tasks(self) -> set[str]:
        """Tasks whose steps marks or pairs define."""
        return {task for task, told in self._told.items() if told.told}

    @property
    def held(self) -> dict[str, int]:
        """The number of steps not closed yet, by task."""
        early = {task: len(told.early) for task, told in self._told.items()}
        if not self._of(TRAIN).told:
            early[TRAIN] = early.get(TRAIN, 0) + int(self._round.complete)
        return early

    @property
    def tellers(self) -> dict[str, list[str]]:
        """Tasks whose steps marks define on this thread, and those whose steps pairs define."""
        told = self._told.items()
        return {
            "marked": [task for task, one in told if one.marked],
            "paired": [task for task, one in told if one.paired],
        }

    def resume(self, tellers: dict[str, list[str]]) -> None:
        """Go on from the :attr:`tellers` of another lane of this thread."""
        for task in tellers.get("marked", ()):
            self._of(task).marked = True
        for task in tellers.get("paired", ()):
            self._of(task).paired = True

    def _of(self, task: str) -> DeclaredSteps:
        """The marks and pairs of a task on this thread."""
        told = self._told.get(task)
        if told is None:
            told = self._told[task] = DeclaredSteps(task)
        return told

    # Spans of PyTorch calls

    def begins(self, kind: int, at: int) -> bool:
        """R18: whether this event begins the time."""
        self._fold.made |= kind == k.MADE
        if kind not in FIRST_KINDS:
            return False
        self.begun = True
        self.turn.start = self.turn.end = at
        return True

    def ended(self, kind: int, at: int, flags: int) -> None:
        """Handle the end of an outermost span that may end a step."""
        if self.pending is not None:
            self._optimizer(self.pending, at)
        elif kind == k.SCALER:
            if self.turn.backwards:  # R2: the scaler skipped the optimizer.
                self._cut(at)
                if self._step is not None:
                    self._step.forget(None)
        elif not (
            self._fold.made or self._of(TRAIN).told or flags & k.FAILED or self._attacks(self.turn)
        ):
            self._cut(at)  # R1
            step, self._step = self._step, None
            if step is not None:
                self._close([step])
                self.closed = self._fold.together is not None

    def rare(
        self,
        kind: int,
        start: int,
        ns: int,
        value: float,
        what: int,
        depth: int,
        flags: int,
        site: int,
    ) -> None:
        """Handle the rarer kinds of events: other spans, marks, and events that do not nest."""
        fold = self._fold
        if kind == k.LOOP:
            if self.begun and not depth:
                self._loop(not flags & k.CAME, start, value, flags & k.LATER)
        elif kind == k.SCALE:
            self._scaled = fold.expect(site, start) if flags & k.LATER else value
        elif kind == k.MADE:
            fold.made = True
            self._round.end()
        elif kind == k.ITERATE:
            self._iterates(int(value) if value == value else None, what)
        elif kind == k.SAVE:
            if not depth:  # R19
                self._pauses(CHECKPOINT_PAUSE, self.turn.move(ns, PART_OTHER))
        elif kind == k.STEP:
            if flags & k.MARKED:
                self._plain(start, self.rest)
            self._mark(site, value, start, flags)
        elif kind == k.ENTERS:
            self._enters(self._of(self._task_of(site)), start, flags)
        elif kind == k.PAIR_BEGINS:
            self._pair_begins(site, value, start, flags)
        elif kind == k.WAITS:
            self._waits(self._of(self._task_of(site)), start, flags)
        elif kind == k.PAIR:
            self._pair(site, value, start, start + ns, flags)
        elif kind == k.LOSS:
            task = fold.task(self._task_of(site))
            if flags & k.FAILED:
                task.unread += 1
            elif flags & k.LATER:
                fold.expect_loss(site, start, task)
            else:
                task.lost(value)
        elif kind == k.BATCH:
            if not self.begun:
                self.begins(kind, start)
            self._of(self._task_of(site)).batches.append(value)
        elif kind == k.LATE:
            fold.arrive(what, start, value)
        elif kind == k.DEVICE:
            fold.timed(what, start, value, ns)
        elif kind == k.LOADING_BEGINS or kind == k.PAUSE_BEGINS:
            if flags & k.MARKED:
                self._plain(start, self.rest)
            if self.begun or kind == k.LOADING_BEGINS:
                turn = self._until(start)
                self._declares[kind] = turn, [*turn.parts], turn.waited
            if kind == k.LOADING_BEGINS and "selector" not in fold.sites[site]:
                self._iterated(self._of(self._task_of(site)), start)
        elif kind == k.PAUSE:
            self._paused(start, ns, flags)
        elif kind == k.COMPILE:
            self.turn.compiled += ns
            self._passes_on(start + ns, depth)
        elif kind == k.TIME_FIRST:
            fold.time_first = True
        elif kind == k.GRADIENTS:
            fold.graded = True
            self._passes_on(start + ns, depth)

    def _passes_on(self, end: int, depth: int) -> None:
        """End a span whose own time belongs to the part around it: spans within it are around's."""
        within, self.inside[depth + 1] = self.inside[depth + 1], 0
        if depth:
            self.inside[depth] += within
        elif within:
            self._until(end).move(within, self.rest)

    # Marks and pairs

    def _task_of(self, site: int) -> str:
        return str(self._fold.sites[site].get("task") or TRAIN)

    def _until(self, at: int) -> Step:
        """The turn, with its time up to ``at``."""
        turn = self.turn
        if not self.begun:
            self.begins(k.STEP, at)
        gap = at - turn.end
        if gap > 0:
            turn.parts[self.rest] += gap
            if self.rest == PART_LOADING:
                self.waited += gap
            turn.end = at
        return turn

    def _next(self, at: int, loader: int | None) -> Step:
        """Begin a new turn."""
        before = [*self._before]
        for part, ns in enumerate(self.turn.parts):  # A closed step has fewer parts.
            before[part] += ns
        self._before = before
        self.turn, self.waited = Step(at, loader), 0
        return self.turn

    def _enters(self, told: DeclaredSteps, at: int, flags: int) -> None:
        """R22: begin a step where the loop or function with the mark is entered."""
        if not self.begun:
            self.begins(k.STEP, at)
        turn = self._until(at)
        if flags & k.MARKED:
            self._plain(at, self.rest, turn)
        told.entered = at
        told.before_entered = _sum(self._before, turn.parts)

    def _iterated(self, told: DeclaredSteps, at: int) -> None:
        """``voir.iterate`` asks for a batch: after another task's step, a step begins here."""
        if self._last_told[0] != told.task:
            told.entered, told.before_entered = at, _sum(self._before, self.turn.parts)

    def _mark(self, site: int, items: float, at: int, flags: int) -> None:
        """R22: end a step at a mark."""
        if self._fold.method == "wrap":
            return
        told, script = self._teller(site)
        if flags & k.FAILED:
            return
        if told.by_script and not script:
            if items == items:  # R21: the voirfile's mark only adds a size.
                told.batches.append(items)
            return
        if not self.begun:
            self.begins(k.STEP, at)
        told.marked = True
        start = max(told.entered, told.end) if told.entered else at
        self._tell(told, items, start, at)

    def _waits(self, told: DeclaredSteps, at: int, flags: int) -> None:
        """R23: a loop with pairs begins; the time before it is not loading."""
        if not self.begun:
            self.begins(k.PAIR, at)
        turn = self._until(at)
        turn.resolve(False)
        if flags & k.MARKED:
            self._plain(at, PART_OTHER, turn)
        told.entered, told.before_entered = at, _sum(self._before, turn.parts)
        told.split = True
        if self.rest != PART_LOADING:
            self.rest = PART_BETWEEN
        self._rest = PART_BETWEEN

    def _pair_begins(self, site: int, items: float, at: int, flags: int) -> None:
        """R23: the time between the last pair and this one is loading."""
        told, _ = self._teller(site)
        told.split = True
        told.begins(items)
        if not self.begun:
            self.begins(k.PAIR, at)
        turn = self._until(at)
        if flags & k.MARKED:
            self._plain(at, self.rest, turn)
        self.rest = self._rest = PART_OTHER
        told.opened = at

    def _pair(self, site: int, items: float, start: int, end: int, flags: int) -> None:
        """R21: a pair splits the step of a mark; without marks, it is a step."""
        told, script = self._teller(site)
        told.split = True
        if not self.begun:
            self.begins(k.PAIR, start)
        turn = self._until(end)
        if flags & k.MARKED:
            self._plain(end, self.rest, turn)
        if self.rest == PART_OTHER:
            self.rest = PART_BETWEEN
        self._rest, told.opened = PART_BETWEEN, 0
        if flags & k.FAILED or (told.by_script and not script):
            return
        if told.marked or self._fold.method == "step":
            held = self._fold.task(told.task).held
            if start < told.end and held is not None and held.items != held.items:
                self._fold.task(told.task).resize(items)  # Its mark came before its end.
            told.ends(items)
            return
        told.begins(UNKNOWN)
        told.paired = True
        if self._fold.expects(told, pairs=False):
            for one in told.hold(self._ended_step(told, items, start, end)):
                self._fold.task(told.task).close(self._number, one, one.items)
        else:
            self._tell(told, items, start, end)

    def _teller(self, site: int) -> tuple[DeclaredSteps, bool]:
        """The marks and pairs of a site's task, and whether the site is the script's own."""
        row = self._fold.sites[site]
        told = self._of(self._task_of(site))
        told.sized |= "batch" in row.get("keys", ())
        script = "selector" not in row
        if script and not told.by_script:
            told.by_script = True
            if told.told:  # A voirfile defined the first of these steps.
                step = self._fold.task(told.task).take_back()
                if step is not None:
                    told.early.append(step)
        return told, script

    def _tell(self, told: DeclaredSteps, items: float, start: int, at: int) -> None:
        """End a task's step, with what was held back of it."""
        early = None
        for one in told.taken():
            if one.items == one.items:
                told.sizes.append(one.items)
            early = one if early is None else early.add(one)
        step = self._ended_step(told, items, start, at, early)
        self._fold.task(told.task).close(self._number, step, step.items)
        self.closed = told.task == TRAIN and self._fold.together is not None

    def _ended_step(
        self, told: DeclaredSteps, items: float, start: int, at: int, early: Step | None = None
    ) -> Step:
        """The step of a task that ends now, with what was held back of it (R22, R25).

        It begins at the end of the last declared step of this thread. If that is another task's,
        and ended after the ``start`` of this step, it lies within this one.
        """
        turn, task = self._until(at), told.task
        self._next(at, turn.loader)
        other, ended = self._last_told
        around = other not in ("", task) and start < ended
        inner, told.others = told.others, None
        if task == TRAIN:
            turn = self._trained(told, turn, around, early is None and not told.early)
        else:
            self._other_step(told, turn, at, around)
        if early is not None:
            turn = early.add(turn)
        if around and inner is not None and told.inner is False:
            self._fold.task(task).pause(EVALUATION_PAUSE, turn.less(inner))
        told.inner = around or (early is not None and told.inner is True)
        size, amount = self._items(turn), told.amount(items)
        turn.items = size if amount is None else amount
        if amount is not None or told.sized:
            turn.why = WHY_BATCH
        elif not turn.took and not turn.calls:
            turn.why = WHY_GIVEN
        for one in self._told.values():
            if one is not told:
                one.others = _sum(one.others or [0, 0, 0, 0, 0, 0, 0], turn.parts)
        if not told.split:  # Time between pairs is loading of their own task only.
            turn.resolve(False)
        told.end, told.before = at, self._before
        self._told_before = self._before
        self._last_told = task, at
        return turn

    def _trained(self, told: DeclaredSteps, turn: Step, around: bool, first: bool) -> Step:
        """The training step that ends with ``turn``, with the turns that hooks have ended.

        ``first``: no step is held back that would begin it.
        """
        inner, self._inner = self._inner, None
        ended = self._round.taken()
        if self._step is not None:
            ended.append(self._step)
            self._step = None
        for one in reversed(ended):
            turn = one.add(turn)
        if around:
            turn = turn.add(inner) if inner is not None else turn
            self._evaluation = None
        if around or (first and not (ended or told.end)):
            self._begin_at(told, turn)
        self._end_evaluation()
        self._stepped = True
        return turn

    def _begin_at(self, told: DeclaredSteps, turn: Step) -> None:
        """R22: move a step's begin to the end of its task's last step, or to its loop's begin."""
        since, before = told.end, told.before
        if not since and told.entered:
            since, before = told.entered, told.before_entered
        parts = _difference(self._before, before)
        if parts != turn.parts:
            turn.parts, turn.segments, turn.start = parts, [], since or turn.start

    def _other_step(self, told: DeclaredSteps, turn: Step, at: int, around: bool) -> None:
        """Make ``turn`` the step of a task other than training."""
        content = turn.content()
        self._inner = content if self._inner is None else self._inner.add(content)
        other, ended = self._last_told
        outer = max((one.opened for one in self._told.values() if one is not told), default=0)
        if around:
            self._begin_at(told, turn)
            return
        self._aside(turn)
        parts, since = _difference(self._before, self._told_before), ended
        if outer and not (other == told.task and ended > outer):
            # The first one within a pair of another task.
            parts, since = [0, 0, 0, 0, 0, 0, 0], at
            if told.entered > outer:
                parts, since = _difference(self._before, told.before_entered), told.entered
        if parts != turn.parts:
            turn.parts, turn.segments, turn.start = parts, [], since or turn.start

    def declared_loading(self, start: int, ns: int, flags: int) -> None:
        """Count the time of a ``loading`` pair."""
        turn = self._until(start + ns)
        if flags & k.MARKED:
            self._plain(start + ns, PART_LOADING)
        since, _ = self._since(k.LOADING_BEGINS)
        for part in (PART_OTHER, PART_BETWEEN):
            turn.move(min(ns, turn.parts[part] - since[part]), part, PART_LOADING)
        turn.waited = True

    def _paused(self, start: int, ns: int, flags: int) -> None:
        """R19: count all time of a ``pause`` pair as a pause."""
        if not self.begun:
            return
        turn = self._until(start + ns)
        if flags & k.MARKED:
            self._plain(start + ns, None)
        (since, turn.waited), paused = self._since(k.PAUSE_BEGINS), 0
        for part in range(7):
            paused += turn.move(turn.parts[part] - since[part], part)
        self._pauses(DECLARED_PAUSE, paused)

    def _since(self, kind: int) -> tuple[list[int], bool]:
        """The turn's time at the begin of a declared pair, and whether it had waited by then."""
        none = self.turn, [0, 0, 0, 0, 0, 0, 0], self.turn.waited
        turn, parts, waited = self._declares.pop(kind, none)
        return (parts, waited) if turn is self.turn else none[1:]

    def _pauses(self, kind: str, ns: int) -> None:
        """R19: add a pause to this thread's training, once that has begun."""
        if self._stepped:
            self._train.pause(kind, ns)
            return
        task = self._last_told[0]
        if task:
            self._fold.task(task).pause(kind, ns)

    def _loop(self, asks: bool, at: int, value: float, marked: int) -> None:
        """R20: a ``for`` begins or ends its wait for an item; it is loading if a batch comes."""
        if marked:
            self._plain(at, self.rest if asks or value == value else PART_OTHER)
        turn = self._until(at)
        if asks:
            self.rest, self.waited = PART_LOADING, 0
            return
        if self.rest == PART_LOADING:
            self._waited(turn, value == value)

    def _waited(self, turn: Step, loads: bool) -> None:
        """End the wait of a ``for``."""
        self.rest = self._rest
        turn.waited |= loads
        if not loads:
            turn.move(self.waited, PART_LOADING, self.rest)

    # Loaders and models

    def asked(self, start: int, value: float, what: int, flags: int) -> None:
        """Begin a turn: a loader was asked for a batch at ``start``."""
        turn = self._cut(start)
        loader = turn.loader = self._iterators.get(what, what)
        self._second = None
        if flags & _NO_BATCH:
            if what not in self._seconds:
                self._ended = loader
            return
        self._ambiguous |= flags & k.AMBIGUOUS > 0
        if what in self._seconds:
            self._second = loader, value
            return
        turn.took = {loader: [value]}
        self._ended = None
        self._round.flush()

    def _iterates(self, iterator: int | None, loader: int) -> None:
        """R11: a loader restarts; its unused batches are dropped."""
        if iterator is None:
            return
        if len(self._iterators) > MAX_TRACKED:
            self._iterators.clear()
            self._seconds.clear()
        self._iterators[iterator] = loader
        if self._unfinished(loader):
            self._seconds.add(iterator)
            return
        self._seconds.discard(iterator)
        self._round.flush()
        turn = self.turn
        if self._left.pop(loader, None) and loader in self._mixed:
            self._fold.task(self._mixed[loader]).leave_unknown()
        self._mixed.pop(loader, None)
        self._goes_on &= loader != self._source
        if self._step is not None and loader in self._step.took:
            self._broken_off = loader
        held = self._held.pop(loader, None)
        if held is not None and held.calls and not (self._fold.made or self._stepped):  # R6
            self._evaluated(held)
        if loader in turn.took:
            turn.took = {one: sizes for one, sizes in turn.took.items() if one != loader}
        other = turn.parts[PART_OTHER]
        if self._ended == loader and other > 0 and not turn.calls and not turn.others:
            self._pauses(EPOCH_PAUSE, other)  # R19
            turn.parts[PART_OTHER] = 0
            for segment in turn.segments:
                if segment.part == PART_OTHER:
                    segment.part = None
        self._ended = None

    def _unfinished(self, loader: int) -> bool:
        """Whether the open step trains on a batch of this loader, which has not ended."""
        if self._ended is not None:
            return False
        step, turn = self._step, self.turn
        learned = turn.backwards and loader in turn.took
        return bool(learned or (step is not None and step.backwards and loader in step.took))

    def _learn_from_second(self, turn: Step) -> None:
        """R11: count a batch of a second iterator, as a model trains on it."""
        assert self._second is not None
        loader, size = self._second
        self._second = None
        turn.took = {loader: [size]}
        self._seconds.clear()

    def forward(self, ns: int, rows: float, model: int, flags: int) -> None:
        """Handle a model's call: a training call, an evaluation call, or another."""
        turn = self.turn
        call = _CALLS[flags]
        if call == k.LEARNING:
            if model not in self._learners and len(self._learners) < MAX_TRACKED:
                self._learners.add(model)
            if turn.looks and not turn.took and not turn.calls:  # R3
                turn = self._cut(turn.end)
            if self._second is not None:
                self._learn_from_second(turn)
            turn.call(model, rows, not self._zeroed)  # R13
            return
        turn.others += 1
        if call == k.EVALUATION:
            turn.look(model, rows, ns)

    def _looks(self, turn: Step) -> tuple[float, float, float] | None:
        """Evaluation calls of trained models, or of all if none is: their number, rows, ns."""
        shown = [
            look
            for model, look in turn.looks.items()
            if model in self._learners or not self._learners
        ]
        if not shown:
            return None
        rows = min((look[1] for look in shown if look[1] == look[1]), default=UNKNOWN)  # R13
        return min(look[0] for look in shown), rows, sum(look[2] for look in shown)

    def backward(self, loss: float, start: int, depth: int, flags: int, site: int) -> None:
        """Handle a backward. A nested one without a loss belongs to the enclosing span."""
        if depth and loss != loss and self._scaled is None and not flags & k.LATER:
            return
        turn = self.turn
        if flags & k.ZEROED and not self._zeroed:  # R16
            if turn.backwards:
                self._zeroed, turn.several = True, turn.backwards > 1
            elif self._step is not None and self._step.backwards:
                self._step.forget(self._broken_off)  # An earlier batch was skipped.
            self._broken_off = None
        turn.backwards += 1
        if self.rest == PART_LOADING:
            self._waited(turn, False)  # R20: a wait with a backward is not loading.
        if self.rest == PART_BETWEEN:
            turn.resolve(False)
            self.rest = self._rest = PART_OTHER
        known, self._scaled = self._scaled, None  # R15
        if known is None:
            known = self._fold.expect(site, start) if flags & k.LATER else loss
        if not self._zeroed:
            if isinstance(known, LateValue):
                turn.late = [*turn.late, known]
            else:
                turn.loss += known
            turn.learned()
        elif turn.given:
            turn.given = {}

    # Times on a device

    def before(self, start: int) -> None:
        """Assign the device's time before ``start`` to the present turn."""
        self._gap = self.turn.add_segment(Segment(start, self.rest))

    def on_device(self, kind: int, start: int, depth: int) -> None:
        """Expect a device's time of a span."""
        if self._gap is None:
            self.before(start)
        gap, self._gap = self._gap, None
        assert gap is not None
        part = None if kind == k.SAVE and not depth else PART_OF[kind]
        own = self.turn.add_segment(Segment(start, part))
        self._fold.expect_times(self._number, start, gap, own)

    def _plain(self, at: int, part: int | None, turn: Step | None = None) -> None:
        """Expect a device's time before an event that does not nest; it counts to ``part``."""
        segment = (turn or self.turn).add_segment(Segment(at, part))
        self._fold.expect_times(self._number, at, segment, None)

    # Turns

    def _cut(self, until: int) -> Step:
        """End the turn and classify it; return the next one."""
        turn = self._until(until)
        loader = turn.loader
        if turn.optimizer is not None or (turn.backwards and not self._attacks(turn)):  # R4
            self._belongs(turn)
        elif self._evaluates(turn):  # R5
            held = self._held.get(loader)
            if held is not None and not held.calls:
                turn = self._held.pop(loader).add(turn)
            self._evaluated(turn)
        elif self._evaluation and not turn.calls and loader == self._evaluation.loader:
            self._evaluated(turn)  # The end of its loader, or skipped batches.
        elif not turn.took and not turn.calls and not turn.others and not self._evaluation:
            return turn  # Only time: the next turn begins with it.
        elif loader in self._held:  # R6, R7
            held = self._held[loader].add(turn)
            sizes = held.took.get(loader, ())
            if len(sizes) > MAX_TRACKED and not held.calls:
                held.took[loader] = [*sizes[-MAX_HELD:]]  # No step uses as many.
        elif len(self._held) < MAX_HELD:
            self._held[loader] = turn
        return self._next(until, loader)

    def _belongs(self, turn: Step) -> None:
        """Add the turn to the step, and held turns too (R6, R7)."""
        if turn.took:
            self._source, self._goes_on = turn.loader, True
        self._end_evaluation()
        self._stepped = True
        for other in list(self._held) if self._held else ():
            held = self._held.pop(other)
            if held.calls and None is not other != turn.loader is not None:
                self._evaluated(held)
                self._end_evaluation()
            else:
                turn = held.add(turn)
        self._step = self._step.add(turn) if self._step is not None else turn

    def _attacks(self, turn: Step) -> bool:
        """R4: whether only models in ``eval()`` were called, on a batch of another loader."""
        if not turn.took or turn.calls or not turn.others or turn.loader == self._source:
            return False
        return bool(self._learners) or not self._fold.made

    def _evaluates(self, turn: Step) -> bool:
        """R5: whether models were called but not trained, on batches or by a trained model."""
        if turn.calls or not turn.others:
            return False
        if turn.took or turn.loader is not None:
            return True
        looks = self._looks(turn)
        return self._stepped and looks is not None and looks[1] > looks[0]  # Not an agent's.

    def _evaluated(self, turn: Step) -> None:
        name = EVAL if self._stepped or self._fold.made else INFERENCE
        if turn.backwards:  # An attack: its gradients belong to no step.
            turn.backwards, self._zeroed = 0, False
        taken = self._take(turn, turn.others + sum(turn.calls.values()), name)
        n, items = sum(map(len, taken)), sum(map(sum, taken))
        if not taken:
            looks = self._looks(turn)
            n, items = (int(looks[0]), self._rows(looks[1])) if looks is not None else (0, 0.0)
        if name == INFERENCE and self._fold.graded:
            n = 0  # It may be a training step written by hand.
        self._aside(turn)
        if n and name not in self.told_tasks:
            self._fold.task(name).close(self._number, turn, items, n)

    def _aside(self, turn: Step) -> None:
        """Add a turn to the open evaluation."""
        if self._evaluation is None:
            self._evaluation = Step(turn.start)
        self._evaluation.parts = [
            a + b for a, b in zip(self._evaluation.parts, turn.parts, strict=True)
        ]
        self._evaluation.loader, self._evaluation.end = turn.loader, turn.end

    def _end_evaluation(self) -> None:
        evaluation, self._evaluation = self._evaluation, None
        if evaluation is not None and self._stepped:  # R19
            train = self._train
            train.pause(EVALUATION_PAUSE, evaluation.ns)
            # Time after the last step belongs to the task, as its pause does.
            train.end = max(train.end, evaluation.end)

    def _take(self, turn: Step, n: int | None, task: str = TRAIN) -> list[list[float]]:
        """R11: take the ``n`` oldest unused batches of each of its loaders; None: all."""
        left, taken, own = self._left, [], turn.loader
        if self._goes_on and (task != TRAIN) is (own == self._source):
            own = self._source if task == TRAIN else None  # Batches of steps are not evaluated.
        for loader, fresh in turn.took.items() if turn.took else ((own, []),):
            sizes = [*left.pop(loader), *fresh] if loader in left else fresh
            if n is not None and len(sizes) > n:
                left[loader] = sizes[n:][-MAX_TRACKED:]
                if sizes.count(sizes[0]) < len(sizes):  # Items are unknown unless all are used.
                    self._mixed[loader] = task
                sizes = sizes[:n]
            if sizes:
                taken.append(sizes)
        return taken

    # Similar steps

    def state(self) -> tuple[Any, ...] | None:
        """The state that decides how the next step is read; None if anything is open or held."""
        if (
            self._step is not None or self._held or self._left or self._inner is not None
            or self._declares or self._evaluation is not None or self._seconds
            or self._second is not None or self._gap is not None or self._scaled is not None
            or self._zeroed or self._looked[0] or self._looked[1] or self._ended is not None
            or self._broken_off is not None or self.rest == PART_LOADING or not self._round.single
        ):  # fmt: skip
            return None
        fold, told = self._fold, tuple(one.state() for one in self._told.values())
        if None in told:
            return None
        return (
            told, self.turn.loader, self._source, self._goes_on, self._backwards, self.rest,
            self._rest, self._stepped, self._ambiguous, len(self._learners), fold.made, fold.graded,
            fold.time_first,
        )  # fmt: skip

    def alike(self, data: bytes, since: int, at: int, kinds: bytearray) -> Alike | None:
        """Count the steps with the same events as the one between ``since`` and ``at``.

        The last two are left to :meth:`Fold.feed`, so that the held state is as usual. None are
        counted if the C function reads the known step differently.
        """
        task, turn = self._train, self.turn
        like = self._round.first or task.held
        if like is None or not task.timely or any(self.inside) or read is None:
            return None
        loads = not task.loads
        found = read(data, since, at, kinds, self.rest, self._rest, loads, like.start)
        if found is None:
            return None
        self._round.flush()  # As the next event would.
        if not same(found, like, loads) or (turn.loader is not None and not like.took):
            self._fold.unlike = self
            return None
        alike = Alike(like, found, loads)
        task.close_alike(alike)
        turn.start = turn.end = alike.end
        self._before = _sum(self._before, alike.raw)
        if self._of(TRAIN).told:
            for one in self._told.values():
                if one.others is not None:
                    one.others = _sum(one.others, alike.raw)
        return alike

    # Steps

    def _optimizer(self, optimizer: int, end: int) -> None:
        """R1: an optimizer's step ends a step; R9: together with other optimizers' steps."""
        self.turn.optimizer = optimizer
        self._fold.made = True  # A loaded or copied optimizer was not created.
        self._cut(end)
        self.pending, self._zeroed = None, False
        if self._of(TRAIN).told:
            return
        step, self._step = self._step, None
        if step is not None:
            self._round.add(step)
            self.closed = self._fold.together is not None

    def _close(self, turns: list[Step]) -> None:
        """Close a step of one optimizer or several (R9)."""
        whole = turns[0]
        if len(turns) > 1:
            loss, late, backwards = whole.loss, whole.late, whole.backwards
            inputs = whole.inputs  # R13, R15: of the first optimizer.
            for other in turns[1:]:
                whole.add(other)
            whole.loss, whole.late, whole.backwards, whole.inputs = loss, late, backwards, inputs
        elif whole.several or (self._ended is not None and whole.backwards < self._backwards):
            # R15: cut short by the loader's end, the sum is not a mean.
            whole.loss, whole.late, whole.unknown_loss = UNKNOWN, [], True
        self._backwards = whole.backwards
        if whole.looks or self._looked[1] or self._looked[0]:
            self._look(self._looks(whole) if self._learners else None)
        whole.items, told = self._items(whole), self._of(TRAIN)
        closed = told.hold(whole) if self._fold.expects(told, pairs=True) else [whole]
        for one in closed:
            self._train.close(self._number, one, one.items)

    def _items(self, turn: Step) -> float:
        took, calls = turn.took, turn.calls
        if len(took) == 1 and not self._left:
            (sizes,) = took.values()
            if len(sizes) == 1:
                self._last = sizes
                return sizes[0] if sizes[0] == sizes[0] else self._learned_rows(turn)
        taken = self._take(turn, max(calls.values()) if calls else None)
        if len(taken) == 1:
            items = sum(taken[0])
            return items if items == items else self._learned_rows(turn)
        known = [n for n in turn.inputs.values() if n == n]
        if not taken:  # R13; a later step on a loader's batch may use all or a piece of it.
            rows = self._rows(min(known, default=UNKNOWN))
            within = turn.loader is not None and self._last and self._ended is None
            if within and rows not in self._last:
                turn.why, rows = WHY_LEFT, UNKNOWN
            return rows
        self._last = sums = [sum(sizes) for sizes in taken]
        only = len(set(known)) == 1 and known[0] in sums  # Models trained on one of them only.
        return known[0] if only else max(sums)  # R12

    def _learned_rows(self, turn: Step) -> float:
        """R14: the rows of the model's input, for a dictionary of tensors of several lengths."""
        rows, turn.why = list(turn.inputs.values()), WHY_BATCH
        return self._rows(rows[0]) if self._ambiguous and len(rows) == 1 else UNKNOWN

    def _rows(self, rows: float) -> float:
        """R14: a model's rows are items, unless time may be the first dimension."""
        return UNKNOWN if self._fold.time_first else rows

    def _look(self, now: tuple[float, float, float] | None) -> None:
        """R8: evaluation calls within the last step were an evaluation, unless the step before or
        after has some too."""
        if now is not None and not now[1] > now[0]:
            now = None  # Single rows are an agent's.
        before, last = self._looked
        held = self._train.held if last and not before and not now else None
        if last and held is not None:
            n, items, ns = last
            shown = Step(held.end - int(ns))
            shown.end = held.end
            shown.parts[PART_FORWARD] = int(ns)
            self._fold.task(EVAL).close(self._number, shown, self._rows(items), int(n))
            self._train.pause(EVALUATION_PAUSE, int(ns), held, PART_FORWARD)
        self._looked = [last, now]

    def finish(self) -> None:
        """Close everything when the thread has ended."""
        if not self.begun:
            return
        self._cut(self.turn.end)
        self._round.end()
        for told in self._told.values():
            for early in told.taken():
                self._fold.task(told.task).close(self._number, early, early.items)
        if self._step is not None:
            self._fold.unused += self._step.backwards
        self._look(None)
        for held in self._held.values():
            if not self._stepped:
                other = held.looks or (held.calls and held.loader and not self._fold.made)
            else:  # On the training's loader it is an incomplete step.
                other = held.calls and held.loader not in (None, self._source)
            if other:
                self._evaluated(held)
        self._held.clear()
        self._end_evaluation()
        for loader, task in self._mixed.items():
            if loader in self._left:
                self._fold.task(task).leave_unknown()
