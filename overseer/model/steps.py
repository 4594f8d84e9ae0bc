"""Steps, and the turns that they are put together from."""

from __future__ import annotations

from .events import BETWEEN, LOADING, OTHER

NAN = float("nan")
#: What a turn has until there is something to put in: never changed.
_NO_SIZES: dict[int | None, list[float]] = {}
_NO_CALLS: dict[int, int] = {}
_NO_ROWS: dict[int, float] = {}
_NO_LOOKS: dict[int, list[float]] = {}
_NO_LATE: list[Late] = []
_NO_SEGMENTS: list[Segment] = []


class Late:
    """A number that is still on a device when its event is read."""

    __slots__ = ("arrived", "value")

    def __init__(self) -> None:
        self.arrived, self.value = False, NAN

    def take(self, value: float) -> None:
        """It has come."""
        self.arrived, self.value = True, value


class Segment:
    """What lies between two marks on a device.

    Attributes:
        at: When it begins or ends, by the host's clock.
        part: The part of a step that it is; None: a pause.
        ns: How long it took; None until that is known, NaN where it never will be.
    """

    __slots__ = ("at", "ns", "part")

    def __init__(self, at: int, part: int | None) -> None:
        self.at, self.part = at, part
        self.ns: float | None = None


class Step:
    """A stretch of one thread's time and what happened in it: a turn, or a step, its turns' sum.

    Attributes:
        start: Where it begins, and ``end`` where what is known of it ends; ns.
        parts: Nanoseconds by part; while it is open, with what lies between pairs.
        took: The sizes of the batches that each loader gave.
        loader: The loader that was asked last.
        calls: How often each model was called to learn.
        others: How often models were called otherwise.
        given: Rows that each model learned from since the last backward; ``inputs``: before that.
        looks: Calls in evaluation mode without gradients, by model: how many, rows, ns.
        backwards: How many, and ``loss`` the sum of what they were called on.
        late: Numbers that belong to the loss and are not known yet.
        optimizer: The optimizer that stepped in it.
        segments: Its time on a device, where it has one, piece by piece.
        several: Whether gradients of several backwards were thrown away: one of them is the loss.
        unknown_loss: Whether that leaves the loss unknown, or the sum of its losses is no mean.
        waited: Whether its loading was seen though no loader was asked.
        between: Nanoseconds of its loading that only pairs tell.
        why: Where its items are unknown: why, a key of ``tasks.WHY``.
        compiled: Nanoseconds in which something was compiled.

    Of a finished step:
        task: The task, and ``number`` of the step in it, from 1 on.
        thread: The thread, by the recorder's number.
        items: Of its batches; NaN: unknown.
        pause: Nanoseconds of pauses in it, which are no part of it.
        timed: Whether its parts are by a device's clock.
        told: The last loss that was given in it; NaN: none.
    """

    __slots__ = (
        "backwards", "between", "calls", "compiled", "end", "given", "inputs", "items", "late",
        "loader",
        "looks", "loss", "number", "optimizer", "others", "parts", "pause", "segments",
        "several", "start", "task", "thread", "timed", "told", "took", "unknown_loss", "waited",
        "why",
    )  # fmt: skip

    def __init__(self, start: int, loader: int | None = None) -> None:
        self.start = self.end = start
        self.parts = [0, 0, 0, 0, 0, 0, 0]
        self.loader = loader
        self.took, self.calls, self.looks = _NO_SIZES, _NO_CALLS, _NO_LOOKS
        self.given = self.inputs = _NO_ROWS
        self.others = self.backwards = self.compiled = self.between = 0
        self.loss, self.late, self.why = 0.0, _NO_LATE, ""
        self.segments = _NO_SEGMENTS
        self.optimizer: int | None = None
        self.waited = self.several = self.unknown_loss = self.timed = False
        self.told = NAN

    task: str
    number: int
    thread: int
    items: float
    pause: int

    @property
    def ns(self) -> int:
        """How long it took, without pauses."""
        return sum(self.parts)

    @property
    def loading(self) -> int:
        """How long it waited for its batches."""
        return self.parts[LOADING]

    @property
    def loaded(self) -> bool:
        """Whether its loading was seen."""
        return self.loader is not None or self.waited

    @property
    def complete(self) -> bool:
        """Whether all that comes later has come: its times on a device, and its loss."""
        if not self.late and not self.segments:
            return True
        return all(s.ns is not None for s in self.segments) and all(n.arrived for n in self.late)

    def join(self) -> bool:
        """Take in what came later; whether the device has timed it, from its beginning on."""
        if self.late and all(late.arrived for late in self.late):
            self.loss += sum(late.value for late in self.late)
            self.late = _NO_LATE
        parts = [0, 0, 0, 0, 0, 0]
        for segment in self.segments:
            if segment.ns is None or segment.ns != segment.ns:
                return False
            if segment.part is not None:
                parts[segment.part] += int(segment.ns)
        if self.segments:
            self.parts = parts
        return bool(self.segments)

    def add_segment(self, segment: Segment) -> Segment:
        """A piece of its time on a device; returns it."""
        if self.segments is _NO_SEGMENTS:
            self.segments = []
        self.segments.append(segment)
        return segment

    def move(self, ns: int, part: int, to: int | None = None) -> int:
        """Count so much of a part, or what there is of it, to another, or to none.

        Returns:
            How much that was.
        """
        moved = min(ns, self.parts[part])
        self.parts[part] -= moved
        if to is not None:
            self.parts[to] += moved
        return moved

    def less(self, parts: list[int]) -> int:
        """Take time out of it; returns how much that was."""
        return sum(self.move(ns, part) for part, ns in enumerate(parts))

    def resolve(self, loads: bool) -> None:
        """What lies between its pairs is loading, or nothing that is known."""
        part = LOADING if loads else OTHER
        moved = self.move(self.parts[BETWEEN], BETWEEN, part)
        if loads:
            self.between, self.waited = moved, True
        for segment in self.segments:
            if segment.part == BETWEEN:
                segment.part = part

    def content(self) -> Step:
        """A copy of what has happened in it, without its time."""
        made = Step(self.start, self.loader)
        made.add(self)
        made.took = {loader: [*sizes] for loader, sizes in self.took.items()}
        made.segments, made.parts = _NO_SEGMENTS, [0, 0, 0, 0, 0, 0, 0]
        return made

    def call(self, model: int, rows: float, counts: bool) -> None:
        """A model was called to learn; with ``counts``, from as many ``rows``."""
        if self.calls is _NO_CALLS:
            self.calls = {model: 1}
        else:
            self.calls[model] = self.calls.get(model, 0) + 1
        if not counts:
            return
        if self.given is _NO_ROWS:
            self.given = {model: rows}
        else:
            self.given[model] = NAN if model in self.given else rows

    def learned(self) -> None:
        """A backward ends what models have learned from until now."""
        if self.inputs is _NO_ROWS:
            self.inputs = self.given
        else:
            for model, rows in self.given.items():
                self.inputs[model] = self.inputs.get(model, 0.0) + rows
        self.given = _NO_ROWS

    def look(self, model: int, rows: float, ns: int) -> None:
        """A model was called in evaluation mode without gradients."""
        if self.looks is _NO_LOOKS:
            self.looks = {}
        n, before, spent = self.looks.get(model, (0.0, 0.0, 0.0))
        self.looks[model] = [n + 1, before + rows, spent + ns]

    def add(self, other: Step) -> Step:
        """Take in what came before or after; returns itself."""
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        self.parts = [a + b for a, b in zip(self.parts, other.parts, strict=True)]
        if other.took:
            if not self.took:
                self.took = other.took
            else:
                for loader, taken in other.took.items():  # In place: there may be many.
                    self.took.setdefault(loader, []).extend(taken)
        if other.calls:
            every = {*self.calls, *other.calls}
            self.calls = {m: self.calls.get(m, 0) + other.calls.get(m, 0) for m in every}
        if other.inputs:
            models = {*self.inputs, *other.inputs}
            rows, more = self.inputs, other.inputs
            self.inputs = {m: rows.get(m, 0.0) + more.get(m, 0.0) for m in models}
        if other.given:
            self.given = {**self.given, **other.given}
        if other.looks:
            looks, none = dict(self.looks), [0.0, 0.0, 0.0]
            for model, look in other.looks.items():
                seen = looks.get(model, none)
                looks[model] = [a + b for a, b in zip(seen, look, strict=True)]
            self.looks = looks
        self.others += other.others
        self.backwards += other.backwards
        self.compiled += other.compiled
        self.loss += other.loss
        if other.late:
            self.late = [*self.late, *other.late]
        if other.segments:
            self.segments = [*self.segments, *other.segments]
        if other.optimizer is not None:
            self.optimizer = other.optimizer
        self.waited |= other.waited
        self.several |= other.several
        return self

    def forget(self, loader: int | None) -> None:
        """What it has learned came to nothing: its time counts, and its items.

        Args:
            loader: One that has begun anew since: what it gave before does not count.
        """
        self.backwards, self.loss, self.late = 0, 0.0, _NO_LATE
        if loader is not None:
            self.took = {one: sizes for one, sizes in self.took.items() if one != loader}
