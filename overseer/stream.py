"""The stream of events: plain callables are served at once, on any thread, under one lock.

This is the fast lane. giving's operators (``overseer/given.py``) subscribe here like anybody
else, and are imported only when somebody uses them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar
from weakref import WeakSet

from .boundary import Guarded, Report, asked_for, current, here, name_of
from .errors import Problem
from .plans import Plan, Tally
from .ways import Event, Gate, Keys, Listener, Source, Taker, form

#: Takes an event and how many there were of its keys; says whether it wants the next one too.
Sampler = Callable[[Event, int], object]

#: How many combinations of keys are remembered; more than that are looked up each time.
MAX_PLANS = 1000
#: What one end of a pair looks like.
END = '{"$wrap": {"name": "step", "step": "end", "id": 1}}'
#: Seconds that a signal's handler waits for the lock.
PATIENCE = 0.5


class Heard(Guarded):
    """A listener that is not to blame for an event that says under ``$wrap`` what nobody can read.

    Args:
        fn: The listener.
        who: Whose it is, for the report.
        stream: Whose events it hears, and who tells what is wrong with one.
        again: Whether it can be called again once it has failed.
    """

    __slots__ = ("_again", "_stream")

    def __init__(self, fn: Listener, who: str, stream: EventStream, again: bool) -> None:
        super().__init__(fn, who, stream.report)
        self._stream, self._again = stream, again

    def excused(self, *args: Any) -> bool:
        """Whether the event that it failed with is at fault."""
        (event,) = args
        return self._again and "$wrap" in event and self._stream.malformed(event["$wrap"])


class Subscription:
    """A listener in its place; ``dispose`` takes it out."""

    __slots__ = ("call", "completed", "fn", "free", "keys", "stream", "who")

    def __init__(
        self,
        stream: EventStream,
        fn: Listener,
        who: str,
        keys: Keys,
        completed: Callable[[], object] | None,
    ) -> None:
        self.stream = stream
        self.fn = fn
        # An operator of giving's that fails has disposed of itself.
        self.call = Heard(fn, who, stream, again=completed is None)
        self.keys = keys
        self.completed = completed
        self.free = getattr(fn, "free", False) is True
        self.who = who

    def of(self, keys: Keys) -> Listener:
        """What takes events of just these keys, unguarded."""
        choose = getattr(self.fn, "for_keys", None)
        return self.fn if choose is None else choose(keys)

    def alone(self, keys: Keys, gate: Gate, source: Source) -> Taker | None:
        """What takes their values where no other listens, see :mod:`.ways`; None without such."""
        choose = getattr(self.fn, "for_values_alone", None)
        return None if choose is None else choose(keys, gate, source)

    def dispose(self) -> None:
        """Stop listening, from this moment on; harmless when done twice."""
        self.call.alive = False
        self.leave()

    def leave(self) -> None:
        """Stop listening, but for an event that it is just hearing."""
        self.stream.remove(self)


class EventStream:
    """Delivers each event once to every listener whose keys it has.

    Listeners run on the thread that gives, one event at a time over all threads, in the order in
    which they subscribed. A listener may give in its turn: that event is delivered within. The
    child of a fork has no listeners: the run is its parent's.

    Args:
        report: Called once for each listener that fails; the listener is switched off.

    Attributes:
        lock: Held while listeners run. One for all streams, so that a listener of one may push
            into another without two threads waiting for each other.
        sampler: Sees events now and then: after it had enough of those with the same keys, not
            before :meth:`anew`.
        changes: How often who listens has changed.
        closed: Whether the stream has been completed.
    """

    lock: ClassVar[Any] = threading.RLock()

    def __init__(self, report: Report) -> None:
        self.report = report
        self._listeners: tuple[Subscription, ...] = ()
        self.changes = 0
        self._plans: dict[Keys, Plan] = {}
        self._tallies: dict[Keys, Tally] = {}
        self._others = Tally()
        self._outlets: WeakSet[Outlet] = WeakSet()
        self._inherited: ContextVar[Event] | None = None
        self.sampler: Sampler | None = None
        self.closed = False
        self._told = False
        _streams.add(self)

    def listen(
        self,
        fn: Listener,
        *keys: str,
        who: str | None = None,
        completed: Callable[[], object] | None = None,
    ) -> Subscription:
        """Call ``fn(event)`` for every event that has all of ``keys`` (none: for every event).

        Args:
            fn: A plain callable; what it returns is ignored. If it has ``for_keys(keys)``, that
                returns one that is quicker for events of just these keys; ``for_values_alone``
                one for where no other listens, see :mod:`.ways`. If ``free`` is true of it,
                several threads may call it at once, and where that holds for all listeners, no
                lock is taken.
            keys: Keys that the event must have.
            who: Whose listener it is; the instrument that is running, when not given.
            completed: Called when the stream ends, unless the listener has failed.
        """
        who = who or current() or name_of(fn)
        subscription = Subscription(self, fn, who, keys, completed)
        self._change(lambda: (*self._listeners, subscription))
        return subscription

    def outlet(self, changed: Callable[[], object]) -> Outlet:
        """A way into the stream for events whose keys are known beforehand.

        Args:
            changed: Called when :meth:`Outlet.of` has something else to say.
        """
        outlet = Outlet(self, changed)
        self._outlets.add(outlet)
        return outlet

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out of the stream."""
        self._change(lambda: tuple(s for s in self._listeners if s is not subscription))

    def _change(self, listeners: Callable[[], tuple[Subscription, ...]]) -> None:
        with self.lock:
            self._listeners = listeners()
            self.changes += 1
            self._plans.clear()
        for outlet in tuple(self._outlets):
            outlet.changed()

    def choose_anew(self) -> None:
        """Ask all listeners again how they take events; also from a signal's handler."""
        # It may have interrupted this thread where another waits for it that has the lock.
        if self.lock.acquire(timeout=PATIENCE):
            try:
                self._change(lambda: self._listeners)
            finally:
                self.lock.release()

    @property
    def inherited(self) -> ContextVar[Event] | None:
        """giving's context variable of keys that every event inherits, once it is there."""
        return self._inherited

    @inherited.setter
    def inherited(self, variable: ContextVar[Event] | None) -> None:
        self._inherited = variable
        self._change(lambda: self._listeners)

    @property
    def events(self) -> int:
        """How many events have been pushed."""
        return sum(tally.count for tally in (*self._tallies.values(), self._others))

    def anew(self) -> None:
        """Let the sampler see the next event of all keys."""
        with self.lock:
            plans = tuple(self._plans.values())
            for plan in plans:
                plan.wanted[:] = [True]
        for quick in [quick for plan in plans for quick in tuple(plan.quicks)]:
            quick.end()  # The next event comes the ordinary way.

    @property
    def listeners(self) -> list[Subscription]:
        """Every subscription in order, for completing and for tests."""
        return list(self._listeners)

    def push(self, event: Event) -> None:
        """Deliver ``event`` now, on this thread.

        Raises:
            BaseException: What a listener asked for (stop, abort, ``.fail()``), once the listeners
                after it have had the event too.
        """
        if self._inherited is not None and (extra := self._inherited.get()):
            event = {**extra, **event}
        (self._plans.get(tuple(event)) or self.plan(tuple(event))).deliver(event)

    def plan(self, keys: Keys) -> Plan:
        """Who gets events of these keys; remembered, for scripts give the same keys for ever."""
        with self.lock:
            plan = self._plans.get(keys)
            if plan is not None:
                return plan
            have = set(keys)
            wanting = tuple(s for s in self._listeners if have.issuperset(s.keys))
            kind = Paired if "$wrap" in have else Plan
            if keys not in self._tallies and len(self._tallies) >= MAX_PLANS:
                return kind(self, keys, wanting, self._others)
            plan = kind(self, keys, wanting, self._tallies.setdefault(keys, Tally()))
            self._plans[keys] = plan
            return plan

    def malformed(self, wrap: object) -> bool:
        """Whether what stands under ``$wrap`` is no end of a pair; that is told once."""
        wrong = _wrong(wrap)
        if wrong is not None and not self._told:
            self._told = True
            remedy = f"It is left out; the script goes on. One end of a pair is {END}."
            self.report(Problem("bad-wrap", "$wrap", wrong, here(), remedy))
        return wrong is not None

    def complete(self) -> None:
        """End the stream: reductions emit now, and what that gives is still delivered.

        Raises:
            BaseException: What one of them asked for, once all have ended.
        """
        if self.closed:
            return
        self.closed = True
        wish: BaseException | None = None
        for subscription in self.listeners:
            if subscription.completed is not None and subscription.call.alive:
                try:
                    finish(subscription.call, subscription.completed)
                except BaseException as error:
                    wish = error if wish is None else wish
        if wish is not None:
            raise wish

    def clear(self) -> None:
        """Forget every listener."""
        self._change(lambda: ())

    def silence(self) -> None:
        """Be the stream of a forked child, without listeners."""
        self.closed, self.sampler = True, None
        self._change(lambda: ())


class Paired(Plan):
    """How events are delivered that are one end of a pair, or say that they are."""

    __slots__ = ()

    def _failed(self, error: BaseException, at: int, event: Event, but: object = None) -> None:
        if asked_for(error) or not self._subscriptions[at].call.excused(event):
            super()._failed(error, at, event, but)
            return
        with self._stream.lock:
            self._rest(event, at + 1, None, but)


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


class Outlet:
    """A way into a stream for events whose keys are known beforehand, as a probe's are.

    Called with an event, it pushes that: so it serves as a listener anywhere.
    """

    def __init__(self, stream: EventStream, changed: Callable[[], object]) -> None:
        self._stream = stream
        self.changed = changed

    def __call__(self, event: Event) -> None:
        """Push an event."""
        self._stream.push(event)

    @property
    def inherits(self) -> bool:
        """Whether an event may inherit keys: then it is for all who listen to those."""
        return self._stream.inherited is not None

    def for_keys(self, keys: Keys, but: object = None) -> Listener:
        """What takes events of just these keys, until ``changed`` is called.

        Args:
            keys: The keys.
            but: A listener that does not want them: whoever gives them itself.
        """
        return self._stream.plan(keys).outlet(but)

    def for_values(self, keys: Keys, source: Source) -> Taker | None:
        """What takes the values of events with just these keys; None if there is no such."""
        all_keys = (*keys, "$wrap") if source.pair is not None else keys
        return self._stream.plan(all_keys).values(keys, source)

    #: What inserted code may do by itself with events of just these keys.
    form = staticmethod(form)


def finish(call: Guarded, completed: Callable[[], object]) -> None:
    """Tell the subscriber ``call`` that no more will come; a failure in this is its own."""
    try:
        with EventStream.lock:
            completed()
    except BaseException as error:
        if asked_for(error):
            raise
        call.failed("reduction", error, "a reduction failed at the end")


_streams: WeakSet[EventStream] = WeakSet()


def _after_fork() -> None:
    EventStream.lock = threading.RLock()  # Another thread may have held the old one.
    for stream in _streams:
        stream.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Event", "EventStream", "Listener", "Outlet", "Subscription", "finish"]
