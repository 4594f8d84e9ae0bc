"""Forward passes that nothing is learned from: evaluation, or all that a script does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Pass(NamedTuple):
    """A forward pass.

    Attributes:
        model: A name for the model.
        fetches: How many batches loaders had given by then.
        task: What it is if nothing is learned from it: ``eval``, or ``inference``.
        items: How many items it was made on, where known.
        ended: When it did.
        began: When it began.
        mark: The device's mark for its end, where it is told late.
        late: It ended a while ago.
        unsure: It may be a step's, if the script learns before a loader is asked again.
    """

    model: int
    fetches: int
    task: str
    items: int | None
    ended: int = 0
    began: int = 0
    mark: object = None
    late: bool = False
    unsure: bool = False


class Hears(Protocol):
    """What hears of passes, and knows which loaders are asked."""

    @property
    def elsewhere(self) -> bool:
        """Whether the loader asked last is none of those whose batches were evaluated."""

    @property
    def feeding(self) -> bool:
        """Whether that loader feeds training."""

    def learned(self) -> None:
        """The script learns: a pass that was unsure belongs to a step, maybe."""


class Passes:
    """Tells evaluation from the forward passes of a step, as soon as the second one begins.

    One forward pass without gradients may be a teacher's or an agent's, and belongs to the step
    around it. Two of the same model in a row, on different batches, are an evaluation; so is one of
    the model that is trained, in evaluation mode. What another model does beside each of them, as a
    critic beside its actor, is no pass of its own.

    A teacher may be evaluated right before it teaches: where the evaluation goes on with the batch
    of another loader, that may be training, until that loader is asked again.

    Args:
        emit: Called with each pass, the first when the second begins.
        hears: Hears of them, too; without, no pass is unsure.
    """

    __slots__ = (
        "_before", "_counts", "_emit", "_first", "_hears", "_other", "_paired", "_running",
        "_told", "_unsure", "_waits",
    )  # fmt: skip

    def __init__(self, emit: Callable[[Pass], object], hears: Hears | None = None) -> None:
        self._emit, self._hears = emit, hears
        self._told = False  # Some have been, since the script learned.
        self._unsure = self._waits = False  # The pass at work is; one before it was.
        self._first: Pass | None = None
        self._other: Pass | None = None
        self._before: int | None = None  # The model whose pass came before the first of these.
        self._paired: int | None = None  # The one that comes behind each of these.
        self._running = self._counts = False

    def begins(self, model: int, fetches: int, trains: bool, certain: bool = False) -> bool:
        """Another forward pass begins; returns whether nothing is learned from it.

        Args:
            model: A name for the model.
            fetches: How many batches loaders have given so far; 0 where none waits.
            trains: The script is known to train.
            certain: It can't be but an evaluation.
        """
        self._counts = certain
        self._unsure = False
        first, hears = self._first, self._hears if self._told else None
        if certain:
            if first is not None and first.model != model:
                self._before = first.model
                self._first, self._other, self._running = None, None, False
            elif first is not None and not self._running:
                self._tell(first._replace(late=True))
            self._running = True
            if trains and fetches and hears is not None and not self._waits:
                self._unsure = hears.elsewhere and hears.feeding  # Several are an evaluation.
            return not self._unsure
        if first is None:
            return False
        if first.model != model:
            other = self._other
            if other is None or other.model != model:
                return False  # A second model in one pass.
            # It has come round before the first did. Its last was a part of a pass that was told,
            # where it was there each time: then it is not told by itself.
            self._running = self._running and model == self._paired
            self._first = first = other
            self._other = self._paired = None
        if trains and fetches and fetches == first.fetches and not self._running:
            return False  # The same batch once more.
        if not self._running:
            self._running = True
            self._tell(first._replace(late=True))
        elif trains and fetches and hears is not None and hears.elsewhere:
            self._unsure = True
        self._counts = True
        return not self._unsure

    def ended(self, made: Pass) -> None:
        """The pass has ended."""
        if self._first is None or self._first.model == made.model:
            self._first = made
            if self._counts:
                beside = None if self._other is None else self._other.model
                self._other, self._paired = None, None if beside == self._before else beside
                if self._unsure:
                    made, self._waits = made._replace(unsure=True), True
                self._tell(made)
        else:
            self._other = made

    def looked(self) -> None:
        """The pass that was made last, and alone, is an evaluation's."""
        first, self._first = self._first, None
        if first is not None:
            self._tell(first._replace(late=True))

    def learned(self) -> None:
        """The script learns: what was seen belongs to a step."""
        self._first = self._other = self._before = self._paired = None
        self._running = False
        told, self._told = self._told, False
        if told and self._waits:
            self._waits = False
            if self._hears is not None:
                self._hears.learned()

    def _tell(self, made: Pass) -> None:
        self._told = True
        self._emit(made)
