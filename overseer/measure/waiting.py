"""Waits for batches, as probes in a loader's own code tell of them: noted by the step model.

A loader is asked for a batch in every step, and mostly it is the same loader and nobody but the
step model wants to know. Then a wait takes one call in Python, when the batch has come: that it
was asked for is noted by functions in C alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from .hearing import TASK
from .notes import FULL
from .threads import LOADED, LOADING

if TYPE_CHECKING:
    from .audience import Audience
    from .steps import StepModel

Event = dict[str, Any]
Listener = Callable[[Event], object]
#: Batches of one loader in a row after which the next is expected to be its, too.
ALIKE = 4


class Lull:
    """A stretch in which the batches of one loader are no news; their sizes may be.

    Args:
        source: The loader's name.
        left: How many batches it has.
        over: Called when they have come.
        size: Sizes a batch; None: nobody wants to know.

    Attributes:
        items: The size of the last one.
    """

    __slots__ = ("items", "left", "over", "size", "source")

    def __init__(
        self,
        source: Hashable,
        left: int,
        over: Callable[[], object],
        size: Callable[[Any], int | None] | None = None,
    ) -> None:
        self.source, self.left, self.over, self.size = source, left, over, size
        self.items: int | None = None


class Ear:
    """A listener that is exchanged while its probe stays; the probe is to be refreshed then."""

    __slots__ = ("fn",)

    def __init__(self, fn: Listener) -> None:
        self.fn = fn

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        self.fn(event)

    def for_keys(self, keys: tuple[str, ...]) -> Listener:
        """What hears events until the probe is refreshed."""
        return self.fn


class Waits:
    """Hears probes in a ``__next__``, with events of the iterator as ``self``.

    Args:
        audience: Who is told.
        refresh: Called when an ear has been given another way to hear.

    Attributes:
        ask: Hears that a batch is asked for.
        give: Hears that ``batch`` has come.
    """

    def __init__(self, audience: Audience, refresh: Callable[[], object]) -> None:
        self._audience, self._refresh = audience, refresh
        self.ask, self.give = Ear(self._asked), Ear(self._gave)
        self._source: Hashable = None
        self._alike = 0
        self._quick = False

    def error(self, event: Event) -> None:
        """It raised ``error``; to say that it has no more, or for another reason."""
        name = name_of(event["self"])
        if self._quick and name != self._source:
            self.slow()
            self._settle(name)
        self._audience.failed(name, isinstance(event["error"], StopIteration))

    def expect(self, lull: Lull) -> bool:
        """Tell only the model from here on, of the loader of the last batch; whether it is that."""
        fits = lull.source == self._source and self._audience.model is not None
        if fits:
            self._hasten(lull)
        return fits

    def slow(self) -> None:
        """Tell everybody from here on."""
        self._alike = 0
        if self._quick:
            self._quick = False
            self.ask.fn, self.give.fn = self._asked, self._gave
            self._refresh()

    def _asked(self, event: Event) -> None:
        self._audience.asked(name_of(event["self"]))

    def _gave(self, event: Event) -> None:
        name = name_of(event["self"])
        self._alike = self._alike + 1 if name == self._source else 0
        self._source = name
        self._audience.answered(name, event["batch"])
        if self._alike >= ALIKE and self._audience.nobody_else:
            self._hasten(None)

    def _hasten(self, lull: Lull | None) -> None:
        """From the next on, expect this loader's batches."""
        model = self._audience.model
        assert model is not None
        self._quick = True
        self.ask.fn = _asks(model, self._source)
        self.give.fn = _gives(model, self._source, lull, self._other, self.slow)
        self._refresh()

    def _other(self, event: Event) -> None:
        """It was not as expected: another loader's batch, or the first with a device."""
        self.slow()
        name = name_of(event["self"])
        self._settle(name)
        self._audience.answered(name, event["batch"])

    def _settle(self, name: Hashable) -> None:
        """Of another loader's wait the first part was taken for that of the one expected."""
        model = self._audience.model
        if name != self._source and model is not None:
            model.loading_ends(self._source)
            self._audience.asked(name)


def _asks(model: StepModel, source: Hashable) -> Listener:
    what, marks = model.what(LOADING, TASK, source), model.marks
    if marks.device is None:
        nothing = repeat(None)
        note = zip(repeat(what), iter(model.now, None), iter(model.thread, None),
                   nothing, nothing, nothing, strict=False)  # fmt: skip
        # What next() is given besides is the event, which it would return at the end: never.
        return partial(next, map(model.fresh.extend, note))
    now, ident = model.now, model.thread

    def asks(event: Event) -> None:
        at, thread = now(), ident()
        model.note((what, at, thread, None, None, marks.mark(at, thread, False)))

    return asks


def _gives(
    model: StepModel,
    source: Hashable,
    lull: Lull | None,
    other: Listener,
    slow: Callable[[], object],
) -> Listener:
    what, marks, device = model.what(LOADED, TASK, source), model.marks, model.marks.device
    now, ident, fresh, size = model.now, model.thread, model.fresh, lull.size if lull else None

    def gives(event: Event) -> None:
        at = now()
        iterator = event["self"]
        if id(getattr(iterator, "_index_sampler", iterator)) != source or marks.device != device:
            other(event)
            return
        thread = ident()
        mark = None if device is None else marks.mark(at, thread, False)
        model.note((what, at, thread, None, None, mark))
        if len(fresh) > FULL:
            model.full()
        if lull is not None:
            if size is not None:
                lull.items = size(event["batch"])
            lull.left -= 1
            if lull.left <= 0:
                slow()
                lull.over()

    return gives


def name_of(iterator: Any) -> Hashable:
    """A name for what ``iterator`` reads from, the same in each epoch where that can be told."""
    return id(getattr(iterator, "_index_sampler", iterator))
