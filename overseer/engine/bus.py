"""The synchronous bus: delivers events to subscribers and overrides in the script's thread.

An event is delivered to its subscribers before the script goes on, one event at a time over all
threads. Its stock numbers, such as a loss, are also recorded, through a site of the recorder for
each combination of keys and task; so everything that only reads needs no subscriber. ``ov.log`` is
another bus: of what leaves the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import count
from weakref import WeakSet

from ..boundary import Guarded, current, here, is_requested_stop, name_of, said
from ..errors import Problem
from ..recorder import recorder, sites, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from ..boundary import Report

    Event = dict[str, Any]
    Keys = tuple[str, ...]
    Listener = Callable[[Event], object]

#: How many combinations of keys are remembered; further ones are looked up each time.
MAX_KEY_SETS = 1000
#: The numbers of pairs that are given; those of probes are lower.
FIRST_GIVEN = 1 << 20
#: What one end of a pair looks like.
WRAP_EXAMPLE = '{"$wrap": {"name": "step", "step": "end", "id": 1}}'
#: What pairs are recorded as, by their names; others are spans.
PAIRS = {"loading": sites.LOADING, "pause": sites.PAUSE}
PAIRS |= dict.fromkeys(("step", "batch", "compute", "compute_start"), sites.PAIR)
#: Plain events that are the ends of a pair ``compute``.
COMPUTE_ENDS = {"compute_start": True, "compute_end": False}
#: The keys of how many items a step has, and how that is read of their values.
SIZES = {"batch_size": sites.NUMBER, "batch": sites.LENGTH}

#: The keys that events inherit in a context, and the numbers of blocks; giving, once a script
#: imports it, goes on with these. Contexts outlive runs, so there is one for the process.
keys_in_force: ContextVar[dict[str, Any]] = ContextVar("inherited", default={})  # noqa: B039
numbers = count()


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
        samplers: Called with each event, and how many of its keys there have been.
        inherits: Whether events may have inherited keys by now.
        closed: Whether it has been completed.
        subscriptions: All of them, in order.
        on_steps: Called when a site has been made whose events tell of steps.
        sampled: Probes whose events are handed over now and then; :meth:`sample` asks for the next.
    """

    lock: ClassVar[Any] = threading.RLock()

    def __init__(self, report: Report, records: bool = False) -> None:
        self.report = report
        self.inherits = self.closed = self._told = False
        self.samplers: list[Callable[[Event, int], object]] = []
        self.subscriptions: tuple[Subscription, ...] = ()
        self.on_steps: list[Callable[[], object]] = []
        self.sampled: list[Any] = []
        self._records = records
        self._heard: dict[Keys, tuple[Subscription, ...]] = {}
        self._sites: dict[tuple[object, object, object], Any] = {}
        self._pairs: dict[tuple[object, object], int] = {}
        self._counted: dict[Keys, list[Any]] = {}
        self._pushed: dict[Keys, int] = {}
        self._changed: list[Callable[[], object]] = []
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
        self._change(lambda: (*self.subscriptions, subscription))
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out."""
        self._change(lambda: tuple(s for s in self.subscriptions if s is not subscription))

    def on_change(self, fn: Callable[[], object]) -> None:
        """Call ``fn`` whenever subscribers have come or gone."""
        self._changed.append(fn)

    def _change(self, subscriptions: Callable[[], tuple[Subscription, ...]]) -> None:
        with self.lock:
            self.subscriptions = subscriptions()
            self._heard.clear()
        for changed in tuple(self._changed):
            changed()

    def wants(self, keys: Keys) -> bool:
        """Whether anybody may subscribe to events of these keys, and of keys that they inherit."""
        return bool(self.subscriptions if self.inherits else self._hearers(keys))

    def may_inherit(self) -> None:
        """Events inherit keys from here on."""
        if not self.inherits:
            self.inherits = True
            recorder.inherit(keys_in_force)
            self._change(lambda: self.subscriptions)

    def _hearers(self, keys: Keys) -> tuple[Subscription, ...]:
        found = self._heard.get(keys)
        if found is None:
            have = set(keys)
            found = tuple(s for s in self.subscriptions if have.issuperset(s.keys))
            if len(self._heard) < MAX_KEY_SETS:
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
        else:
            end = next(
                (("compute", COMPUTE_ENDS[key]) for key in keys if key in COMPUTE_ENDS), None
            )
        place = keys, task if type(task) is str else None, end
        site = self._sites.get(place) or self._new_site(*place)
        site.given(event)

    def _new_site(self, keys: Keys, task: str | None, end: tuple[Any, bool] | None) -> Any:
        name = str(end[0]) if end is not None else None
        more: dict[str, Any] = {}
        if end is not None:
            pair = self._pairs.setdefault((end[0], task), FIRST_GIVEN + len(self._pairs))
            more = {"role": sites.BEGINS if end[1] else sites.ENDS, "pair": pair, "name": name}
        site = recorder.Site(0, sites.VALUE, ring=sites.VALUES, keys=keys, **more)
        if record_stock(site, keys, name, task=task):
            self.tells_steps()
        site.bus, site.hand = self.push, -1
        if len(self._sites) < MAX_KEY_SETS:
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
            self.keep(event, seen)
            deliver(event, iter(self._hearers(keys)))

    def keep(self, event: Event, seen: int) -> None:
        """Hand an event, the ``seen``-th of its keys, to what keeps some of them."""
        for sampler in self.samplers:
            sampler(event, seen)

    def sample(self) -> None:
        """Have the next event of each probe handed over, for the record."""
        for placed in self.sampled:
            placed.arm(1)

    def loading_site(self, task: str) -> Any:
        """A context in which the script waits for a batch of this task."""
        place = sites.LOADING, task, None
        if place not in self._sites:
            number = table.add(sites.LOADING, "loading", task=task)
            site = recorder.Site(number, sites.LOADING, ring=sites.STRUCTURE)
            begins = table.add(sites.LOADING_BEGINS, "loading", task=task)
            site.record(begins, sites.LOADING_BEGINS, sites.STRUCTURE, -1, sites.NOTHING)
            self._sites[place] = site
            self.tells_steps()
        return self._sites[place]

    def tells_steps(self) -> None:
        """A site has been made whose events tell of steps."""
        for call in self.on_steps:
            call()

    def counted_by(self, site: Any, keys: Keys) -> None:
        """Count events of these keys by a site: not all of them are pushed."""
        with self.lock:
            self._counted.setdefault(keys, []).append(site)

    def _seen(self, keys: Keys) -> int:
        """How many events of these keys there have been."""
        pushed = self._pushed.get(keys, 0) + 1
        if pushed > 1 or len(self._pushed) < MAX_KEY_SETS:
            self._pushed[keys] = pushed
        fired: int = sum(site.fired for site in self._counted.get(keys, ()))
        return max(pushed, fired)

    @property
    def events(self) -> int:
        """How many events have been pushed."""
        return sum(self._pushed.values())

    def _malformed(self, wrap: Any) -> bool:
        """Whether what stands under ``$wrap`` is no end of a pair; that is told once."""
        try:
            hash((wrap["name"], wrap["step"], wrap.get("id")))
            return False
        except KeyError as error:
            wrong = f"it has no {error}"
        except Exception as error:
            wrong = f"it cannot be read: {said(error)}"
        if not self._told:
            self._told = True
            remedy = f"It is left out; the script goes on. One end of a pair is {WRAP_EXAMPLE}."
            self.report(Problem("bad-wrap", "$wrap", wrong, here(), remedy))
        return True

    def complete(self) -> None:
        """End the stream: reductions emit now, and what they give is still delivered.

        Raises:
            BaseException: What one of them asked for, once all have ended.
        """
        if self.closed:
            return
        self.closed = True
        requested = []
        for subscription in self.subscriptions:
            call, completed = subscription.call, subscription.completed
            try:
                if completed is not None and call.alive:
                    with self.lock:
                        completed()
            except BaseException as error:
                if is_requested_stop(error):
                    requested.append(error)
                else:
                    call.failed("reduction", error, "a reduction failed at the end")
        if requested:
            raise requested[0]

    def clear(self) -> None:
        """Forget every subscriber."""
        self._change(lambda: ())

    def silence(self) -> None:
        """Be the bus of a forked child, without subscribers."""
        self.closed, self.samplers = True, []
        for subscription in self.subscriptions:  # A subscriber may be the one that forks.
            subscription.call.alive = False
        self.subscriptions, self._heard = (), {}


def deliver(
    event: Event, hearers: Iterator[Subscription], requested: BaseException | None = None
) -> None:
    """Call each subscriber; what one of them asked for is raised when all have had the event."""
    for subscription in hearers:
        try:
            subscription.call(event)
        except BaseException as error:
            # Within the handler: a stop is raised again wherever it is not being handled.
            deliver(event, hearers, requested or error)
    if requested is not None:
        raise requested


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
    key = next((key for key in SIZES if key in keys), "")
    sized, read = (keys.index(key), SIZES[key]) if key else (-1, sites.NOTHING)
    made: list[tuple[int, str]] = []

    def record(kind: int, at: int, how: int, label: str = "") -> None:
        made.append((kind, label))
        ring = sites.KINDS[kind].ring
        site.record(table.add(kind, label, keys=keys, **more), kind, ring, at, how)

    def tasked(task: str) -> tuple[int, ...]:
        """The sites of the same records for a task that only an event tells."""
        also = {**more, "task": task}
        return tuple(table.add(kind, label, keys=keys, **also) for kind, label in made)

    if "task" not in more:
        site.tasked = tasked
    if pair is not None:
        kind = PAIRS.get(pair, sites.SPAN)
        if site.role == sites.BEGINS:
            kind = sites.KINDS[kind].opening or kind
        record(kind, sized, read, pair)
        if kind == sites.PAIR_BEGINS:
            record(sites.WAITS, -1, sites.NOTHING, pair)
        return kind != sites.SPAN
    if "loss" in keys:  # First: it is of the step that ends with this event.
        record(sites.LOSS, keys.index("loss"), sites.NUMBER)
    if "step" in keys:
        record(sites.STEP, sized, read)
        record(sites.ENTERS, -1, sites.NOTHING)
    elif sized >= 0:
        record(sites.BATCH, sized, read)
    stock = {"step", "loss", "batch", "batch_size"} & set(keys)
    if not stock and len(keys) == 1:
        record(sites.VALUE, 0, sites.NUMBER, keys[0])
    return bool(stock)


_buses: WeakSet[Bus] = WeakSet()


def _after_fork() -> None:
    Bus.lock = threading.RLock()  # Another thread may have held the old one.
    for bus in _buses:
        bus.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
