"""What a listener is told that has a way of its own of taking a probe's events.

A call costs as much as all that a listener does in it, and an event that is made costs as much
again. So where a listener is alone, what stands around it in the probe and in the stream is handed
to it: it then does in one call what three would do, with the values of an event that is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

Event = dict[str, Any]
Listener = Callable[[Event], object]
#: Takes the values of an event, in the order of its keys.
Taker = Callable[..., Any]
#: The keys of an event, in order.
Keys = tuple[str, ...]


def ignore(event: Event) -> None:
    """What a listener answers with that wants nothing of events of such keys."""


class Open(NamedTuple):
    """The pairs of one probe that calls are in; by the id of a call's frame.

    Attributes:
        opened: The number of the pair that a call has open.
        calls: The number that all pairs of a call have: so it is seen when another has begun.
    """

    opened: dict[int, int]
    calls: dict[int, int]


class Pair(NamedTuple):
    """What a probe wants of each end of a pair that is passed.

    Attributes:
        name: The pair's name.
        begins: Whether this is where pairs begin.
        open: Those that calls are in.
    """

    name: str
    begins: bool
    open: Open

    def mark(self, event: Event, number: int) -> Event:
        """Mark the event as an end of the pair of this number."""
        step = "begin" if self.begins else "end"
        event["$wrap"] = {"name": self.name, "step": step, "id": number}
        return event


class Offer(NamedTuple):
    """What a listener offers.

    Attributes:
        ready: Whether nothing stands against it.
        values: Returns what is to stand behind the names; asked each time when it begins.
        over: Called when it has ended.
    """

    ready: Callable[[], bool]
    values: Callable[[], Mapping[str, Any]]
    over: Callable[[], object]


class Quick(Protocol):
    """By which inserted code notes a probe's events itself."""

    def offer(self, offer: Offer) -> None:
        """From now on it may."""

    def withdraw(self) -> None:
        """Whoever offered takes no notes any more."""

    def resume(self) -> None:
        """Begin, unless something stands against it."""

    def end(self) -> None:
        """The next event comes the ordinary way."""


class Gate(NamedTuple):
    """What the stream wants of each event, besides having it listened to.

    Attributes:
        up: Counts the events: each takes one step, but those that go ``aside``.
        wanted: Not empty while somebody else wants the next event too: it then goes ``aside``.
        inherits: Returns the keys that an event inherits: it then goes ``aside``. None: none do.
        aside: Counts an event, and returns whether it has been delivered for good.
        failed: Told what the listener raised, and on which event.
        notes: Told by what inserted code notes such events itself: that ends when one is wanted.
    """

    up: Iterator[object]
    wanted: list[bool]
    inherits: Callable[[], object] | None
    aside: Callable[[Event], bool]
    failed: Callable[[BaseException, Event], object]
    notes: Callable[[Quick], object]


class Source(NamedTuple):
    """What a probe wants of each event, besides having it listened to.

    Attributes:
        tally: Counts the events, and numbers them where there are pairs: each takes one step.
        depth: How many calls the inserted code is away from who is called.
        pair: What it wants of an end of a pair.
        quick: Lets inserted code note events by itself; None: it can't.
    """

    tally: Iterator[Any]
    depth: int
    pair: Pair | None
    quick: Quick | None = None


#: What inserted code does by itself with an event, of its batch or loss and of names behind which
#: listeners put functions in C. A note is as in :mod:`.measure.notes`; what has no such size, or
#: is no such tensor, raises before anything is noted, and then the event goes the ordinary way. So
#: does an empty batch: the listener says that it is.
_SIZE = "size(batch, 0) or empty()"
STEP_FORM = f"next(up, next(tally, put((what, now(), ident(), {_SIZE}, None, None))))"
_CALL = "called(id(frame()), next(tally))"
BEGIN_FORM = f"next(up, put((what, now(), ident(), None, opened(id(frame()), {_CALL}), None)))"
END_FORM = (
    f"next(up, next(tally, put((what, now(), ident(), {_SIZE}, close(id(frame()), None), None))))"
)
LOSS_FORM = "next(up, next(tally, keep(item(loss) if cpu(loss) else cut(loss))))"
#: Of events with these keys the size is not that of the batch.
OTHERWISE = frozenset({"task", "batch_size"})


def form(keys: Keys, begins: bool | None) -> str:
    """What inserted code may do by itself with events of these keys; empty: nothing.

    Args:
        keys: Their keys.
        begins: Whether they begin a pair; None: they are no end of one.
    """
    if keys == ("loss",) and begins is None:
        return LOSS_FORM
    if "batch" not in keys or not OTHERWISE.isdisjoint(keys):
        return ""
    if begins is None:
        return STEP_FORM if len(keys) == 2 else ""
    return {(True, 2): BEGIN_FORM, (False, 3): END_FORM}.get((begins, len(keys)), "")


@lru_cache(maxsize=256)
def first(keys: Keys, key: str) -> Callable[[Taker], Taker]:
    """Makes what takes values in the order of these keys, for what takes that of ``key`` first.

    The other values come after it, in order.
    """
    values = [f"v{number}" for number in range(len(keys))]
    at = keys.index(key)
    sorted_values = (values[at], *values[:at], *values[at + 1 :])
    made: Callable[[Taker], Taker] = eval(
        f"lambda taker: lambda {', '.join(values)}: taker({', '.join(sorted_values)})"
    )
    return made


@lru_cache(maxsize=256)
def composer(keys: Keys) -> Callable[[Listener], Taker]:
    """Makes what takes the values of an event with these keys, for what takes the event."""
    values = [f"v{number}" for number in range(len(keys))]
    display = ", ".join(f"{key!r}: {value}" for key, value in zip(keys, values, strict=True))
    made: Callable[[Listener], Taker] = eval(
        f"lambda taker: lambda {', '.join(values)}: taker({{{display}}})"
    )
    return made
