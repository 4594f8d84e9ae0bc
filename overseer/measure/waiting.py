"""Waits for batches, as probes in a loader's own code tell of them: noted by the step model.

A loader is asked for a batch in every step, and mostly it is the same loader and nobody but the
step model wants to know. Then inserted code notes it by itself (inserted code), or a wait
takes two short calls in Python.
"""

from __future__ import annotations

import operator
import sys
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..ways import Keys, Offer, Quick, Source, Taker, first
from .hearing import TASK
from .notes import FULL
from .threads import LOADED, LOADING

if TYPE_CHECKING:
    from .audience import Audience
    from .steps import StepModel

Event = dict[str, Any]
#: Returns what it is given, in C: what :func:`next` is to return where there is no item.
SAME = partial(next, iter(()))
#: What an iterator of torch's has from its loader, and keeps.
SAMPLER = "_index_sampler"
#: Batches of one loader in a row after which the next is expected to be its, too.
ALIKE = 4
#: What inserted code does by itself, see :mod:`..ways`: what is of another loader or thread than
#: expected raises before its size is kept, which would take the place of the size of the step's
#: own batch; what comes after the last batch raises before it is noted.
_ASKED = "next(tally, put((what, now(), mine(ident()), None, known(id(source(self))), None)))"
_GAVE = (
    "next(tally, put((what, now(), mine(ident()), None, known(id(source(self))),"
    " keep(measure(pick(batch))) or next(left))))"
)


class Lull:
    """A stretch in which the batches of one loader are no news; their sizes may be.

    Args:
        source: The loader's name.
        left: How many batches it has.
        over: Called when they have come.
        size: Sizes a batch; None: nobody wants to know.
        way: Returns what gets at the tensor of torch's that sizes batches of a kind, in C; or None.

    Attributes:
        fetched: The size of the last one, if it has not been taken; 0 where it is not known.
        thread: The thread that asks for them.
        settle: To be called before ``left`` is looked at or changed.
    """

    __slots__ = ("fetched", "left", "over", "settle", "size", "source", "thread", "way")

    def __init__(
        self,
        source: Hashable,
        left: int,
        over: Callable[[], object],
        size: Callable[[Any], int | None] | None = None,
        way: Callable[[type], Callable[[Any], Any] | None] | None = None,
    ) -> None:
        self.source, self.left, self.over, self.size, self.way = source, left, over, size, way
        self.fetched: deque[int] = deque(maxlen=1)
        self.thread = get_ident()
        self.settle: Callable[[], object] = list

    @property
    def items(self) -> int | None:
        """The size of the last batch, if it is known and has not been taken."""
        return (self.fetched[-1] or None) if self.fetched else None

    @items.setter
    def items(self, items: int | None) -> None:
        self.fetched.clear()
        if items is not None:
            self.fetched.append(items)


class Ear:
    """What listens to a probe in a ``__next__``, and is exchanged while the probe stays.

    Args:
        fn: Takes the iterator, and the batch where there is one.
        code: What inserted code may do by itself.

    Attributes:
        fn: As given, or what is to take them now.
        quick: By which inserted code notes events itself; None: it can't.
    """

    __slots__ = ("_code", "_failed", "_offer", "fn", "quick")

    def __init__(self, fn: Taker, code: str) -> None:
        self._code = code
        self._failed: set[int] = set()
        self._offer: Offer | None = None
        self.fn = fn
        self.quick: Quick | None = None

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        if not (self._failed and self._passes_over()):
            self.fn(event["self"], event.get("batch"))

    def fail(self) -> None:
        """A call on this thread has failed: its end, which comes next, is no news."""
        self._failed.add(get_ident())
        if self.quick is not None:
            self.quick.end()

    def _passes_over(self) -> bool:
        """Whether what comes is the end of a call that has failed."""
        if get_ident() not in self._failed:
            return False
        self._failed.discard(get_ident())
        if self.quick is not None:
            self.quick.resume()
        return True

    def turn(self, fn: Taker, offer: Offer | None) -> None:
        """Let ``fn`` take what comes; or inserted code, by what is offered, where that can be."""
        self.fn, self._offer = fn, offer
        if self.quick is not None:
            self.quick.withdraw()
            if offer is not None:
                self.quick.offer(offer)

    def for_values(self, keys: Keys, source: Source) -> Taker:
        """What takes the values of events: the iterator's, and one other that is news."""
        self.quick, tally, failed = source.quick, source.tally, self._failed
        if self._offer is not None and self.quick is not None:
            self.quick.offer(self._offer)

        def take(iterator: Any, other: Any, *_: object) -> None:
            next(tally)
            if not (failed and self._passes_over()):
                self.fn(iterator, other)

        return first(keys, "self")(take)

    def form(self, keys: Keys, begins: bool | None) -> str:
        """What inserted code may do by itself with events of these keys."""
        return self._code if "self" in keys and begins is None else ""


class Waits:
    """Hears probes in a ``__next__``, with events of the iterator as ``self``.

    Args:
        audience: Who is told.
        at_exit: ``give`` hears each end of a call, also where :meth:`error` has heard of it.

    Attributes:
        ask: Hears that a batch is asked for.
        give: Hears that ``batch`` has come.
        expects: Only the model is told, as long as one loader's batches come.
    """

    def __init__(self, audience: Audience, at_exit: bool = False) -> None:
        self._audience, self._at_exit = audience, at_exit
        self.ask, self.give = Ear(self._asked, _ASKED), Ear(self._gave, _GAVE)
        self._source: Hashable = None
        self._alike = 0
        self.expects = self._torchs = False
        self._kind: type = type(None)

    def error(self, event: Event) -> None:
        """It raised ``error``; to say that it has no more, or for another reason."""
        name = name_of(event["self"])
        if self._at_exit:
            self.give.fail()
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
        if self.expects:
            self.expects = False
            self.ask.turn(self._asked, None)
            self.give.turn(self._gave, None)

    def _asked(self, iterator: Any, _: object) -> None:
        self._audience.asked(name_of(iterator))

    def _gave(self, iterator: Any, batch: Any) -> None:
        name = name_of(iterator)
        self._torchs, self._kind = hasattr(iterator, SAMPLER), type(batch)
        self._alike = self._alike + 1 if name == self._source else 0
        self._source = name
        self._audience.answered(name, batch)
        if self._alike >= ALIKE and self._audience.nobody_else:
            self._hasten(None)

    def _hasten(self, lull: Lull | None) -> None:
        """From the next on, expect this loader's batches."""
        model = self._audience.model
        assert model is not None
        source, asked, gave = self._source, None, None
        self.expects = True
        sizing, left = _sizing(lull, self._kind), _Left(lull)
        if sizing is not None:
            asked = _offer(model, LOADING, source, self._torchs, left, {})
            gave = _offer(model, LOADED, source, self._torchs, left, sizing)
        if lull is not None:
            lull.settle = self._settle
        self.ask.turn(_asks(model), asked)
        self.give.turn(_gives(model, source, left, self._other, self.slow), gave)

    def _settle(self) -> None:
        """Have inserted code say how many batches there were."""
        if self.give.quick is not None:
            self.give.quick.end()

    def _other(self, iterator: Any, batch: Any) -> None:
        """It was not as expected: another loader's batch, or another thread's."""
        self.slow()
        self._gave(iterator, batch)


def _asks(model: StepModel) -> Taker:
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    what = model.what(LOADING, TASK)

    def asks(iterator: Any, _: object) -> None:
        at, name, thread = now(), id(getattr(iterator, SAMPLER, iterator)), ident()
        mark = None if marks.device is None else marks.mark(at, thread, False)
        model.note((what, at, thread, None, name, mark))
        if len(fresh) > FULL:
            model.full()

    return asks


def _gives(
    model: StepModel,
    source: Hashable,
    left: _Left,
    other: Taker,
    slow: Callable[[], object],
) -> Taker:
    now, ident, marks, lull = model.now, model.thread, model.marks, left.lull
    what, size = model.what(LOADED, TASK), lull.size if lull is not None else None

    def gives(iterator: Any, batch: Any) -> None:
        at, name, thread = now(), id(getattr(iterator, SAMPLER, iterator)), ident()
        if name != source or (lull is not None and thread != lull.thread):
            other(iterator, batch)
            return
        mark = None if marks.device is None else marks.mark(at, thread, False)
        model.note((what, at, thread, None, name, mark))
        if lull is not None:
            if size is not None:
                lull.items = size(batch)
            if left.counted:
                lull.settle()  # Inserted code has noted all but the last.
            lull.left -= 1
            if lull.left <= 0:
                slow()
                lull.over()

    return gives


class _Left:
    """How many batches of a lull inserted code may note by itself: all but the last.

    Args:
        lull: The lull; None: there is no end to it.

    Attributes:
        counted: It counts them at this time, and the lull does not.
    """

    def __init__(self, lull: Lull | None) -> None:
        self.lull, self.counted = lull, False
        self._steps: Any = repeat(None)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.lull is None or self.lull.left > 1

    def begin(self) -> Iterator[None]:
        """Takes a step with each batch, and raises when there are no more."""
        if self.lull is not None:
            self.counted, self._steps = True, repeat(None, self.lull.left - 1)
        return self._steps  # type: ignore[no-any-return]

    def end(self) -> None:
        """They come the ordinary way again."""
        if self.lull is not None and self.counted:
            self.counted = False
            self.lull.left = self._steps.__length_hint__() + 1


def _sizing(lull: Lull | None, kind: type) -> dict[str, Any] | None:
    """How inserted code takes the size of batches of a kind; None if it can't."""
    if lull is None or lull.size is None:
        return {"pick": id, "measure": id, "keep": deque(maxlen=0).append}
    pick = None if lull.way is None else lull.way(kind)
    if pick is None:
        return None
    length = sys.modules["torch"]._C.TensorBase.__len__  # A tensor's own is in Python.
    return {"pick": pick, "measure": length, "keep": lull.fetched.append}


def _offer(
    model: StepModel,
    kind: int,
    source: Hashable,
    torchs: bool,
    left: _Left,
    sizing: dict[str, Any],
) -> Offer:
    """Let inserted code note that a loader is asked, or that it gives a batch."""
    of = operator.attrgetter(SAMPLER) if torchs else SAME
    known: Callable[[Any], Any] = operator.index
    mine = known
    if left.lull is not None:
        thread = left.lull.thread
        known, mine = {source: source}.__getitem__, {thread: thread}.__getitem__
    named = {"known": known, "mine": mine, "source": of}
    own = {"what": model.what(kind, TASK), **named, **sizing}

    def ready() -> bool:
        return model.marks.device is None and left.any

    def values() -> dict[str, Any]:
        more = {"left": left.begin()} if kind == LOADED else {}
        return {**own, **more, **model.common()}

    return Offer(ready, values, left.end if kind == LOADED else list)


def name_of(iterator: Any) -> Hashable:
    """A name for what ``iterator`` reads from, the same in each epoch where that can be told."""
    return id(getattr(iterator, SAMPLER, iterator))
