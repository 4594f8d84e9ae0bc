"""Steps, and the turns that they consist of."""

from __future__ import annotations

from .events import PART_BETWEEN, PART_LOADING, PART_OTHER

UNKNOWN = float("nan")
#: Initial values of turns, which are replaced, never changed.
_NO_SIZES: dict[int | None, list[float]] = {}
_NO_CALLS: dict[int, int] = {}
_NO_ROWS: dict[int, float] = {}
_NO_LOOKS: dict[int, list[float]] = {}
_NO_LATE: list[LateValue] = []
_NO_SEGMENTS: list[Segment] = []


class LateValue:
    """A number that is still on a device when its event is folded."""

    __slots__ = ("arrived", "value")

    def __init__(self) -> None:
        self.arrived, self.value = False, UNKNOWN

    def take(self, value: float) -> None:
        """Set the arrived value."""
        self.arrived, self.value = True, value


class Segment:
    """The time between two timing events on a device.

    Attributes:
        at: Its begin or end, by the host's clock.
        part: Its part of a step; None for a pause.
        ns: Its duration; None until known, NaN if it stays unknown.
    """

    __slots__ = ("at", "ns", "part")

    def __init__(self, at: int, part: int | None) -> None:
        self.at, self.part = at, part
        self.ns: float | None = None


class Step:
    """A turn, or a step as the sum of its turns: an extent of one thread's time, and its contents.

    Attributes:
        start: Its begin; ``end``: the end of its last event so far; ns.
        parts: Nanoseconds by part; an open step also has the time between pairs.
        took: Sizes of batches, by loader.
        loader: The last loader that was asked.
        calls: The number of training calls, by model.
        others: The number of other calls of models.
        given: Rows in training calls since the last backward, by model; ``inputs``: before it.
        looks: Evaluation calls by model: their number, rows, ns.
        backwards: The number of backward calls; ``loss``: the sum of their losses.
        late: Numbers of the loss that are not known yet.
        optimizer: The optimizer that stepped in it.
        segments: Its time on a device, if it has one.
        several: Whether gradients of several backwards were discarded: one of them is the loss.
        unknown_loss: Whether the loss is unknown for that reason, or its sum is not a mean.
        waited: Whether its loading was seen although no loader was asked.
        between: Nanoseconds of its loading that only pairs show.
        why: The reason for unknown items, a key of ``tasks.WHY``.
        compiled: Nanoseconds of compilation.

    Attributes of a finished step:
        task: The task; ``number``: the number of the step in it, from 1.
        thread: The recorder's number of the thread.
        items: Items of its batches; NaN if unknown.
        pause: Nanoseconds of pauses during it, not included in its parts.
        timed: Whether a device's clock timed its parts.
        told: The last loss that the script gave in it; NaN without one.
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
        self.told = UNKNOWN

    task: str
    number: int
    thread: int
    items: float
    pause: int

    @property
    def ns(self) -> int:
        """Its time without pauses."""
        return sum(self.parts)

    @property
    def loading(self) -> int:
        """Its time waiting for batches."""
        return self.parts[PART_LOADING]

    @property
    def loaded(self) -> bool:
        """Whether its loading was seen."""
        return self.loader is not None or self.waited

    @property
    def complete(self) -> bool:
        """Whether all late values have arrived: its times on a device, and its loss."""
        if not self.late and not self.segments:
            return True
        return all(s.ns is not None for s in self.segments) and all(n.arrived for n in self.late)

    def join(self) -> bool:
        """Apply late values; return whether the device timed all of it."""
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
        """Add a piece of its time on a device, and return it."""
        if self.segments is _NO_SEGMENTS:
            self.segments = []
        self.segments.append(segment)
        return segment

    def move(self, ns: int, part: int, to: int | None = None) -> int:
        """Move up to ``ns`` from a part to another, or out of the step.

        Returns:
            The time moved, ns.
        """
        moved = min(ns, self.parts[part])
        self.parts[part] -= moved
        if to is not None:
            self.parts[to] += moved
        return moved

    def less(self, parts: list[int]) -> int:
        """Subtract time by part; return the time subtracted, ns."""
        return sum(self.move(ns, part) for part, ns in enumerate(parts))

    def resolve(self, loads: bool) -> None:
        """Count the time between its pairs as loading, or as *other*."""
        part = PART_LOADING if loads else PART_OTHER
        moved = self.move(self.parts[PART_BETWEEN], PART_BETWEEN, part)
        if loads:
            self.between, self.waited = moved, True
        for segment in self.segments:
            if segment.part == PART_BETWEEN:
                segment.part = part

    def content(self) -> Step:
        """A copy of its contents, without its time."""
        made = Step(self.start, self.loader)
        made.add(self)
        made.took = {loader: [*sizes] for loader, sizes in self.took.items()}
        made.segments, made.parts = _NO_SEGMENTS, [0, 0, 0, 0, 0, 0, 0]
        return made

    def call(self, model: int, rows: float, counts: bool) -> None:
        """Add a training call; ``counts``: whether its rows count."""
        if self.calls is _NO_CALLS:
            self.calls = {model: 1}
        else:
            self.calls[model] = self.calls.get(model, 0) + 1
        if not counts:
            return
        if self.given is _NO_ROWS:
            self.given = {model: rows}
        else:
            self.given[model] = UNKNOWN if model in self.given else rows

    def learned(self) -> None:
        """End the input of a backward: the rows since the last one."""
        if self.inputs is _NO_ROWS:
            self.inputs = self.given
        else:
            for model, rows in self.given.items():
                self.inputs[model] = self.inputs.get(model, 0.0) + rows
        self.given = _NO_ROWS

    def look(self, model: int, rows: float, ns: int) -> None:
        """Add an evaluation call."""
        if self.looks is _NO_LOOKS:
            self.looks = {}
        n, before, spent = self.looks.get(model, (0.0, 0.0, 0.0))
        self.looks[model] = [n + 1, before + rows, spent + ns]

    def add(self, other: Step) -> Step:
        """Add an adjacent turn or step; return itself."""
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
        """Drop its loss, as its gradients were discarded; time and items still count.

        Args:
            loader: A loader restarted since, whose earlier batches do not count; or None.
        """
        self.backwards, self.loss, self.late = 0, 0.0, _NO_LATE
        if loader is not None:
            self.took = {one: sizes for one, sizes in self.took.items() if one != loader}
