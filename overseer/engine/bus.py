"""The synchronous bus: delivers events to subscribers in the thread that gives them.

The bus delivers one event at a time across all threads, and the script waits until its subscribers
have returned. Stock numbers, such as a loss, are also recorded, through one recorder site for each
combination of keys and task: code that only reads figures needs no subscriber. ``ov.log`` is a
second bus, for events that leave the process.
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

#: Cached combinations of keys; further ones are looked up each time.
MAX_KEY_SETS = 1000
#: First number of pairs that are given; pairs of probes have lower numbers.
FIRST_GIVEN = 1 << 20
#: An example of one end of a pair.
WRAP_EXAMPLE = '{"$wrap": {"name": "step", "step": "end", "id": 1}}'
#: Kinds of event that pairs are recorded as, by name; other pairs are spans.
PAIRS = {"loading": sites.LOADING, "pause": sites.PAUSE}
PAIRS |= dict.fromkeys(("step", "batch", "compute", "compute_start"), sites.PAIR)
#: Plain events that are ends of the pair ``compute``: True for the beginning.
COMPUTE_ENDS = {"compute_start": True, "compute_end": False}
#: Keys that give a step's item count, and how to read it from their values.
SIZES = {"batch_size": sites.NUMBER, "batch": sites.LENGTH}

#: The keys that events inherit in a context, and the counter for block numbers. giving uses the
#: same objects once a script imports it. Contexts outlive runs, so the process has one of each.
inherited_keys: ContextVar[dict[str, Any]] = ContextVar("inherited", default={})  # noqa: B039
numbers = count()


class Subscription:
    """One subscriber of a bus; ``dispose`` removes it.

    Attributes:
        call: The guarded subscriber.
        keys: Keys that its events must have.
        completed: Called when the stream ends.
    """

    __slots__ = ("bus", "call", "completed", "keys")

    def __init__(
        self, bus: Bus, fn: Listener, who: str, keys: Keys, completed: Callable[[], object] | None
    ) -> None:
        self.bus, self.keys, self.completed = bus, keys, completed
        self.call = Guarded(fn, who, bus.report)

    def dispose(self) -> None:
        """Unsubscribe; may be called twice."""
        self.call.alive = False
        self.bus.remove(self)


class Bus:
    """Delivers each event once to every subscriber whose keys it has, in order of subscription.

    A subscriber may give events itself; they are delivered at once. A forked child has no
    subscribers, because the run belongs to its parent.

    Args:
        report: Called once for each subscriber that fails and is disabled.
        records: Record the stock numbers of events.

    Attributes:
        lock: Held while subscribers run. All buses share it, so that a subscriber of one may push
            into another without a deadlock.
        samplers: Called with each event and the number of events with its keys so far.
        inherits: True once events may inherit keys.
        closed: True once the stream has been completed.
        subscriptions: All subscriptions, in order.
        on_steps: Called when a site has been created whose events mark steps.
        sampled: Probes whose events are only sampled; :meth:`sample` asks each for its next event.
    """

    lock: ClassVar[Any] = threading.RLock()

    def __init__(self, report: Report, records: bool = False) -> None:
        self.report = report
        self.inherits = self.closed = self._reported = False
        self.samplers: list[Callable[[Event, int], object]] = []
        self.subscriptions: tuple[Subscription, ...] = ()
        self.on_steps: list[Callable[[], object]] = []
        self.sampled: list[Any] = []
        self._records = records
        self._by_keys: dict[Keys, tuple[Subscription, ...]] = {}
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
            fn: A plain callable; its return value is ignored.
            keys: Keys that the event must have; without any, every event matches.
            who: Name of the owner; default: the running instrument.
            completed: Called when the stream ends, unless the subscriber has failed.
        """
        who = who or current() or name_of(fn)
        subscription = Subscription(self, fn, who, keys, completed)
        self._change(lambda: (*self.subscriptions, subscription))
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self._change(lambda: tuple(s for s in self.subscriptions if s is not subscription))

    def on_change(self, fn: Callable[[], object]) -> None:
        """Call ``fn`` whenever subscribers are added or removed."""
        self._changed.append(fn)

    def _change(self, subscriptions: Callable[[], tuple[Subscription, ...]]) -> None:
        with self.lock:
            self.subscriptions = subscriptions()
            self._by_keys.clear()
        for changed in tuple(self._changed):
            changed()

    def wants(self, keys: Keys) -> bool:
        """Test whether events with these keys, or with inherited ones too, may have subscribers."""
        return bool(self.subscriptions if self.inherits else self._subscribers(keys))

    def enable_inheritance(self) -> None:
        """Let events inherit keys from now on."""
        if not self.inherits:
            self.inherits = True
            recorder.inherit(inherited_keys)
            self._change(lambda: self.subscriptions)

    def _subscribers(self, keys: Keys) -> tuple[Subscription, ...]:
        found = self._by_keys.get(keys)
        if found is None:
            have = set(keys)
            found = tuple(s for s in self.subscriptions if have.issuperset(s.keys))
            if len(self._by_keys) < MAX_KEY_SETS:
                self._by_keys[keys] = found
        return found

    def give(self, event: Event) -> None:
        """Record an event's stock numbers and deliver it on this thread.

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
            self.step_site_added()
        site.bus, site.hand = self.push, -1
        if len(self._sites) < MAX_KEY_SETS:
            self._sites[keys, task, end] = site
        return site

    def push(self, event: Event) -> None:
        """Deliver ``event`` on this thread.

        Args:
            event: The event, inherited keys included.

        Raises:
            BaseException: A stop that a subscriber requested (stop, abort, ``.fail()``), once the
                subscribers after it have received the event.
        """
        if "$wrap" in event and self._malformed(event["$wrap"]):
            return
        with self.lock:
            keys = tuple(event)
            seen = self._seen(keys)
            self.keep(event, seen)
            deliver(event, iter(self._subscribers(keys)))

    def keep(self, event: Event, seen: int) -> None:
        """Pass an event, the ``seen``-th with its keys, to the samplers."""
        for sampler in self.samplers:
            sampler(event, seen)

    def sample(self) -> None:
        """Ask each sampled probe for its next event."""
        for placed in self.sampled:
            placed.arm(1)

    def loading_site(self, task: str) -> Any:
        """A context that records the script's wait for a batch of this task."""
        place = sites.LOADING, task, None
        if place not in self._sites:
            number = table.add(sites.LOADING, "loading", task=task)
            site = recorder.Site(number, sites.LOADING, ring=sites.STRUCTURE)
            begins = table.add(sites.LOADING_BEGINS, "loading", task=task)
            site.record(begins, sites.LOADING_BEGINS, sites.STRUCTURE, -1, sites.NOTHING)
            self._sites[place] = site
            self.step_site_added()
        return self._sites[place]

    def step_site_added(self) -> None:
        """Call the ``on_steps`` callbacks: a site has been created whose events mark steps."""
        for call in self.on_steps:
            call()

    def counted_by(self, site: Any, keys: Keys) -> None:
        """Count events with these keys at a site, because not all of them are pushed."""
        with self.lock:
            self._counted.setdefault(keys, []).append(site)

    def _seen(self, keys: Keys) -> int:
        """Count one more event with these keys; return their number."""
        pushed = self._pushed.get(keys, 0) + 1
        if pushed > 1 or len(self._pushed) < MAX_KEY_SETS:
            self._pushed[keys] = pushed
        fired: int = sum(site.fired for site in self._counted.get(keys, ()))
        return max(pushed, fired)

    @property
    def events(self) -> int:
        """Number of events pushed."""
        return sum(self._pushed.values())

    def _malformed(self, wrap: Any) -> bool:
        """Test whether ``wrap`` is not a valid end of a pair; reported once."""
        try:
            hash((wrap["name"], wrap["step"], wrap.get("id")))
            return False
        except KeyError as error:
            wrong = f"it has no {error}"
        except Exception as error:
            wrong = f"it cannot be read: {said(error)}"
        if not self._reported:
            self._reported = True
            remedy = f"It is ignored; the script continues. One end of a pair is {WRAP_EXAMPLE}."
            self.report(Problem("bad-wrap", "$wrap", wrong, here(), remedy))
        return True

    def complete(self) -> None:
        """End the stream: reductions emit their results, which are still delivered.

        Raises:
            BaseException: A stop that one of them requested, once all have ended.
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
        """Remove all subscribers."""
        self._change(lambda: ())

    def silence(self) -> None:
        """Remove all subscribers in a forked child."""
        self.closed, self.samplers = True, []
        for subscription in self.subscriptions:  # A subscriber may be the one that forks.
            subscription.call.alive = False
        self.subscriptions, self._by_keys = (), {}


def deliver(
    event: Event, subscribers: Iterator[Subscription], requested: BaseException | None = None
) -> None:
    """Call each subscriber; raise a stop that one requests once all have received the event."""
    for subscription in subscribers:
        try:
            subscription.call(event)
        except BaseException as error:
            # Stay in the handler: outside of one, the alarm would raise the stop again.
            deliver(event, subscribers, requested or error)
    if requested is not None:
        raise requested


def inheriting(event: Event) -> Event:
    """The event with the keys that it inherits in this context."""
    extra = inherited_keys.get()
    return type(event)({**extra, **event}) if extra else event


def record_stock(site: Any, keys: Keys, pair: str | None = None, **more: Any) -> bool:
    """Make a site record the numbers under the keys that stock instruments understand.

    Args:
        site: A site with these keys.
        keys: The keys of its events.
        pair: The name of the pair, if the site is one end of it.
        more: Further entries in the table of sites: ``selector``, ``task``.

    Returns:
        True if its events mark steps.
    """
    key = next((key for key in SIZES if key in keys), "")
    sized, read = (keys.index(key), SIZES[key]) if key else (-1, sites.NOTHING)
    made: list[tuple[int, str]] = []

    def record(kind: int, at: int, how: int, label: str = "") -> None:
        made.append((kind, label))
        ring = sites.KINDS[kind].ring
        site.record(table.add(kind, label, keys=keys, **more), kind, ring, at, how)

    def tasked(task: str) -> tuple[int, ...]:
        """Return sites of the same records for a task that is only in the event."""
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
    if "loss" in keys:  # First: it belongs to the step that ends with this event.
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
