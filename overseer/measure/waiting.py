"""Waits for batches, as probes in a loader's own code tell of them: noted by the step model.

A loader is asked for a batch in every step, and mostly it is the same loader and nobody but the
step model wants to know. Then a wait takes one call in Python, when the batch has come: when it
was asked for is kept by functions in C alone, until it is known which loader that was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
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
        self._begun: list[tuple[int, int]] = []

    def error(self, event: Event) -> None:
        """It raised ``error``; to say that it has no more, or for another reason."""
        name = name_of(event["self"])
        if self._begun:
            self._ask_late(name)
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
        if self._begun:
            self._ask_late(name)
        self._audience.answered(name, event["batch"])
        if self._alike >= ALIKE and self._audience.nobody_else:
            self._hasten(None)

    def _hasten(self, lull: Lull | None) -> None:
        """From the next on, expect this loader's batches."""
        model = self._audience.model
        assert model is not None
        self._quick = True
        self.ask.fn = _asks(model, self._begun)
        self.give.fn = _gives(model, self._source, self._begun, lull, self._other, self.slow)
        self._refresh()

    def _other(self, event: Event) -> None:
        """It was not as expected: another loader's batch, another thread's, one within another."""
        self.slow()
        self._gave(event)

    def _ask_late(self, name: Hashable) -> None:
        """Say when this thread asked for what it has got now, if that has not been said."""
        model, begun = self._audience.model, self._begun
        if model is None:
            return
        thread = model.thread()
        for at in range(len(begun) - 1, -1, -1):
            if begun[at][1] == thread:
                since = begun.pop(at)[0]
                model.note((model.what(LOADING, TASK, name), since, thread, None, None, None))
                return


def _asks(model: StepModel, begun: list[tuple[int, int]]) -> Listener:
    if model.marks.device is None:
        # What next() is given besides is the event, which it would return at the end: never.
        asked = zip(iter(model.now, None), iter(model.thread, None), strict=False)
        return partial(next, map(begun.append, asked))
    note = model.loading_begins
    return lambda event: note(name_of(event["self"]))


def _gives(
    model: StepModel,
    source: Hashable,
    begun: list[tuple[int, int]],
    lull: Lull | None,
    other: Listener,
    slow: Callable[[], object],
) -> Listener:
    asked, came = model.what(LOADING, TASK, source), model.what(LOADED, TASK, source)
    now, ident, marks, device = model.now, model.thread, model.marks, model.marks.device
    fresh, size = model.fresh, lull.size if lull else None

    def gives(event: Event) -> None:
        at, thread = now(), ident()
        iterator = event["self"]
        name = id(getattr(iterator, "_index_sampler", iterator))
        if name != source or marks.device is not device:
            other(event)
            return
        if device is not None:
            model.note((came, at, thread, None, None, marks.mark(at, thread, False)))
        elif len(begun) == 1 and begun[0][1] == thread:
            since = begun.pop()[0]
            note: Any = model.note  # Two at once.
            note((asked, since, thread, None, None, None, came, at, thread, None, None, None))
        else:
            other(event)
            return
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
