"""The synchronous bus: what must happen in the script's thread, subscribers and overrides.

An event is delivered to its subscribers before the script goes on, one event at a time over all
threads. Its stock numbers, such as a loss, are also recorded, through a site of the recorder for
each combination of keys and task; so everything that only reads needs no subscriber. ``ov.log`` is
another bus: of what leaves the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from itertools import count
from weakref import WeakSet

from ..boundary import Guarded, asked_for, current, here, name_of
from ..errors import Problem
from ..recorder import recorder, table
from ..recorder.sites import (
    BATCH,
    BEGINS,
    ENDS,
    LENGTH,
    LOADING,
    LOSS,
    NOTHING,
    NUMBER,
    PAIR,
    PAUSE,
    SIZE,
    SPAN,
    STEP,
    STRUCTURE,
    VALUE,
    VALUES,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from ..boundary import Report
    from .operators import LogStream

    Event = dict[str, Any]
    Keys = tuple[str, ...]
    Listener = Callable[[Event], object]

#: How many combinations of keys are remembered; further ones are looked up each time.
MOST = 1000
#: How many events of a site are handed over before only one now and then is.
WHOLE = 100
#: The numbers of pairs that are given; those of probes are lower.
FIRST_GIVEN = 1 << 20
#: What one end of a pair looks like.
END = '{"$wrap": {"name": "step", "step": "end", "id": 1}}'
#: Keys whose numbers are recorded, and the names of pairs.
PAIRS = {"loading": LOADING, "pause": PAUSE, "step": PAIR, "compute": PAIR, "compute_start": PAIR}

#: The keys that events inherit in a context, and the numbers of blocks; giving, once a script
#: imports it, goes on with these. Contexts outlive runs, so there is one for the process.
keys_in_force: ContextVar[dict[str, Any]] = ContextVar("inherited", default={})  # noqa: B039
numbers = count()


class Own(dict):  # type: ignore[type-arg]
    """An event that voir itself gives: a strict operator passes over it if it lacks the key."""


class Subscription:
    """A subscriber in its place; ``dispose`` takes it out.

    Attributes:
        call: The subscriber, guarded.
        keys: Keys that its events have.
        completed: Called when the stream ends.
    """

    __slots__ = ("bus", "call", "completed", "keys")

    def __init__(
        self, bus: Bus, fn: Listener, who: str, keys: Keys, completed: Callable[[], object] | None
    ) -> None:
        self.bus, self.keys, self.completed = bus, keys, completed
        self.call = Guarded(fn, who, bus.report)

    def dispose(self) -> None:
        """Hear no more; harmless when done twice."""
        self.call.alive = False
        self.bus.remove(self)


class Bus:
    """Delivers each event once to every subscriber whose keys it has, in the order they came.

    A subscriber may give an event in its turn: that is delivered within. The child of a fork has
    no subscribers: the run is its parent's.

    Args:
        report: Told once of each subscriber that fails; it is then switched off.
        records: Whether stock numbers of its events are recorded.

    Attributes:
        lock: Held while subscribers run; one for all buses, so that a subscriber of one may push
            into another without two threads waiting for each other.
        sampler: Called with events for the record, and how many of their keys there have been.
        inherits: Whether events may have inherited keys by now.
        closed: Whether it has been completed.
    """

    lock: ClassVar[Any] = threading.RLock()

    def __init__(self, report: Report, records: bool = False) -> None:
        self.report = report
        self.inherits = False
        self.sampler: Callable[[Event, int], object] | None = None
        self.closed = False
        self._records = records
        self._subscriptions: tuple[Subscription, ...] = ()
        self._heard: dict[Keys, tuple[Subscription, ...]] = {}
        self._sites: dict[tuple[object, object, object], Any] = {}
        self._pairs: dict[tuple[object, object], int] = {}
        self._counted: dict[Keys, list[Any]] = {}
        self._pushed: dict[Keys, int] = {}
        self._changed: list[Callable[[], object]] = []
        self._told = False
        #: Called when a site has been made whose events tell of steps.
        self.recorded: Callable[[], object] = list
        #: Probes whose events are handed over now and then; :meth:`sample` asks for the next ones.
        self.sampled: list[Any] = []
        _buses.add(self)

    def listen(
        self,
        fn: Listener,
        *keys: str,
        who: str | None = None,
        completed: Callable[[], object] | None = None,
    ) -> Subscription:
        """Call ``fn(event)`` for every event that has all of ``keys``.

        Args:
            fn: A plain callable; what it returns is ignored.
            keys: Keys that the event must have; none: every event.
            who: Whose it is; the instrument that is running, when not given.
            completed: Called when the stream ends, unless the subscriber has failed.
        """
        who = who or current() or name_of(fn)
        subscription = Subscription(self, fn, who, keys, completed)
        self._change(lambda: (*self._subscriptions, subscription))
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out."""
        self._change(lambda: tuple(s for s in self._subscriptions if s is not subscription))

    def on_change(self, fn: Callable[[], object]) -> None:
        """Call ``fn`` whenever subscribers have come or gone."""
        self._changed.append(fn)

    def _change(self, subscriptions: Callable[[], tuple[Subscription, ...]]) -> None:
        with self.lock:
            self._subscriptions = subscriptions()
            self._heard.clear()
        for changed in tuple(self._changed):
            changed()

    @property
    def subscriptions(self) -> list[Subscription]:
        """All of them, in order."""
        return list(self._subscriptions)

    def wants(self, keys: Keys) -> bool:
        """Whether anybody may subscribe to events of these keys, and of keys that they inherit."""
        return bool(self._subscriptions if self.inherits else self._hearers(keys))

    def may_inherit(self) -> None:
        """Events inherit keys from here on."""
        if not self.inherits:
            self.inherits = True
            self._change(lambda: self._subscriptions)

    def _hearers(self, keys: Keys) -> tuple[Subscription, ...]:
        found = self._heard.get(keys)
        if found is None:
            have = set(keys)
            found = tuple(s for s in self._subscriptions if have.issuperset(s.keys))
            if len(self._heard) < MOST:
                self._heard[keys] = found
        return found

    def give(self, event: Event) -> None:
        """Record an event's stock numbers, and deliver it now, on this thread.

        Raises:
            BaseException: As :meth:`push`.
        """
        if self.inherits:
            event = inheriting(event)
        if not self._records:
            self.push(event)
            return
        keys, task, end = tuple(event), event.get("task"), None
        if "$wrap" in event:
            wrap = event["$wrap"]
            if self._malformed(wrap):
                return
            end = wrap["name"], wrap["step"] == "begin"
        place = keys, task if type(task) is str else None, end
        site = self._sites.get(place) or self._new_site(*place)
        site.given(event)

    def _new_site(self, keys: Keys, task: str | None, end: tuple[Any, bool] | None) -> Any:
        name = str(end[0]) if end is not None else None
        more: dict[str, Any] = {}
        if end is not None:
            pair = self._pairs.setdefault((end[0], task), FIRST_GIVEN + len(self._pairs))
            more = {"role": BEGINS if end[1] else ENDS, "pair": pair, "name": name}
        site = recorder.Site(0, VALUE, ring=VALUES, keys=keys, **more)
        if record_stock(site, keys, name, task=task):
            self.recorded()
        site.bus, site.hand = self.push, -1
        if len(self._sites) < MOST:
            self._sites[keys, task, end] = site
        return site

    def push(self, event: Event) -> None:
        """Deliver ``event`` now, on this thread.

        Args:
            event: The event, with all keys that it has.

        Raises:
            BaseException: What a subscriber asked for (stop, abort, ``.fail()``), once those after
                it have had the event too.
        """
        if "$wrap" in event and self._malformed(event["$wrap"]):
            return
        with self.lock:
            keys = tuple(event)
            seen = self._seen(keys)
            if self.sampler is not None:
                self.sampler(event, seen)
            self._deliver(event, self._hearers(keys), 0, None)

    def _deliver(
        self,
        event: Event,
        hearers: tuple[Subscription, ...],
        at: int,
        wish: BaseException | None,
    ) -> None:
        for number, subscription in enumerate(hearers[at:], at + 1):
            try:
                subscription.call(event)
            except BaseException as error:
                # Within the handler: a stop is raised again wherever it is not being handled.
                self._deliver(event, hearers, number, error if wish is None else wish)
                return
        if wish is not None:
            raise wish

    def sample(self) -> None:
        """Have the next event of each probe handed over, for the record."""
        for placed in self.sampled:
            placed.arm(1)

    def size_site(self, task: object) -> int:
        """The site of events that say how many items the last step had."""
        name = task if type(task) is str else None
        site = self._sites.get((SIZE, name, None))
        if site is None:
            site = self._sites[SIZE, name, None] = table.add(SIZE, "size", task=name)
        return int(site)

    def loading_site(self, task: str) -> Any:
        """A context in which the script waits for a batch of this task."""
        site = self._sites.get((LOADING, task, None))
        if site is None:
            site = recorder.Site(table.add(LOADING, "loading", task=task), LOADING, ring=STRUCTURE)
            self._sites[LOADING, task, None] = site
            self.recorded()
        return site

    def counted_by(self, site: Any, keys: Keys) -> None:
        """Count events of these keys by a site: not all of them are pushed."""
        with self.lock:
            self._counted.setdefault(keys, []).append(site)

    def _seen(self, keys: Keys) -> int:
        """How many events of these keys there have been."""
        pushed = self._pushed.get(keys, 0) + 1
        if pushed > 1 or len(self._pushed) < MOST:
            self._pushed[keys] = pushed
        fired: int = sum(site.fired for site in self._counted.get(keys, ()))
        return max(pushed, fired)

    @property
    def events(self) -> int:
        """How many events have been pushed."""
        return sum(self._pushed.values())

    def _malformed(self, wrap: object) -> bool:
        """Whether what stands under ``$wrap`` is no end of a pair; that is told once."""
        wrong = _wrong(wrap)
        if wrong is not None and not self._told:
            self._told = True
            remedy = f"It is left out; the script goes on. One end of a pair is {END}."
            self.report(Problem("bad-wrap", "$wrap", wrong, here(), remedy))
        return wrong is not None

    def complete(self) -> None:
        """End the stream: reductions emit now, and what they give is still delivered.

        Raises:
            BaseException: What one of them asked for, once all have ended.
        """
        if self.closed:
            return
        self.closed = True
        wish: BaseException | None = None
        for subscription in self.subscriptions:
            if subscription.completed is not None and subscription.call.alive:
                try:
                    finish(subscription.call, subscription.completed)
                except BaseException as error:
                    wish = error if wish is None else wish
        if wish is not None:
            raise wish

    def clear(self) -> None:
        """Forget every subscriber."""
        self._change(lambda: ())

    def silence(self) -> None:
        """Be the bus of a forked child, without subscribers."""
        self.closed, self.sampler = True, None
        for subscription in self._subscriptions:  # A subscriber may be the one that forks.
            subscription.call.alive = False
        self._subscriptions, self._heard = (), {}


class Log:
    """``ov.log``: call it with an event to send it out; or use giving's operators on it."""

    def __init__(self, stream: Bus) -> None:
        self._stream = stream
        self._proxy: LogStream | None = None

    def __call__(self, data: Event) -> None:
        """Send an event out of the process: to the record, to ``DATA_FD``, to the dashboard."""
        self._stream.push(data)

    def _operators(self) -> LogStream:
        if self._proxy is None:
            from .operators import LogStream

            self._proxy = LogStream(self._stream)
        return self._proxy

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "on_next":
            raise AttributeError(name)
        return getattr(self._operators(), name)

    def __rshift__(self, subscriber: Any) -> Any:
        return self._operators() >> subscriber

    def __getitem__(self, key: Any) -> Any:
        return self._operators()[key]

    def __or__(self, other: Any) -> Any:
        return self._operators() | other


def inheriting(event: Event) -> Event:
    """The event with the keys that it inherits where it is given."""
    extra = keys_in_force.get()
    return type(event)({**extra, **event}) if extra else event


def record_stock(site: Any, keys: Keys, pair: str | None = None, **more: Any) -> bool:
    """Have a site record the numbers under keys that stock instruments understand.

    Returns:
        Whether any of them tells of steps.

    Args:
        site: A site with these keys.
        keys: The keys of its events.
        pair: The name of the pair, for the site of one end.
        more: What else the table of sites is to say: ``selector``, ``task``.
    """
    sized = next((keys.index(key) for key in ("batch_size", "batch") if key in keys), -1)
    read = NOTHING if sized < 0 else NUMBER if keys[sized] == "batch_size" else LENGTH

    def record(kind: int, at: int, how: int, ring: int = STRUCTURE, label: str = "") -> None:
        site.record(table.add(kind, label, keys=keys, **more), kind, ring, at, how)

    if pair is not None:
        kind = PAIRS.get(pair, SPAN)
        record(kind, sized, read, VALUES if kind == SPAN else STRUCTURE, pair)
        return kind != SPAN
    if "step" in keys:
        record(STEP, sized, read)
    elif sized >= 0:
        record(BATCH, sized, read)
    if "loss" in keys:
        record(LOSS, keys.index("loss"), NUMBER)
    stock = {"step", "loss", "batch", "batch_size"} & set(keys)
    if not stock and len(keys) == 1:
        record(VALUE, 0, NUMBER, VALUES, keys[0])
    return bool(stock)


def finish(call: Guarded, completed: Callable[[], object]) -> None:
    """Tell the subscriber ``call`` that no more will come; a failure in this is its own."""
    try:
        with Bus.lock:
            completed()
    except BaseException as error:
        if asked_for(error):
            raise
        call.failed("reduction", error, "a reduction failed at the end")


def _wrong(wrap: object) -> str | None:
    """What is wrong with one end of a pair, in so far as it can be told at all."""
    if not isinstance(wrap, dict):
        return f"it is of type {type(wrap).__name__}, and not a dict"
    for key in ("name", "step"):
        if key not in wrap:
            return f"it has no {key!r}"
    for key in ("name", "step", "id"):
        try:
            hash(wrap.get(key))
        except Exception:
            return f"its {key} is of type {type(wrap[key]).__name__}, which tells no pairs apart"
    return None


_buses: WeakSet[Bus] = WeakSet()


def _after_fork() -> None:
    Bus.lock = threading.RLock()  # Another thread may have held the old one.
    for bus in _buses:
        bus.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
