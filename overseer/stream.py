"""The stream of events: plain callables are served at once, on any thread, under one lock.

This is the fast lane. giving's operators (``overseer/given.py``) subscribe here like anybody
else, and are imported only when somebody uses them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakSet

from .boundary import Guarded, Report, asked_for, current, name_of

Event = dict[str, Any]
Listener = Callable[[Event], object]

#: How many combinations of keys are remembered; more than that are looked up each time.
MAX_PLANS = 1000


class Subscription:
    """A listener in its place; ``dispose`` takes it out."""

    __slots__ = ("call", "completed", "keys", "stream", "who")

    def __init__(
        self,
        stream: EventStream,
        call: Guarded,
        keys: tuple[str, ...],
        completed: Callable[[], object] | None,
    ) -> None:
        self.stream = stream
        self.call = call
        self.keys = keys
        self.completed = completed
        self.who = call.who

    def dispose(self) -> None:
        """Stop listening, from this moment on; harmless when done twice."""
        self.call.alive = False
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
        events: How many events have been pushed.
        inherited: giving's context variable of keys that every event inherits, once it is there.
        closed: Whether the stream has been completed.
    """

    lock: ClassVar[Any] = threading.RLock()

    def __init__(self, report: Report) -> None:
        self.report = report
        self._listeners: tuple[Subscription, ...] = ()
        self._plans: dict[tuple[str, ...], tuple[Guarded, ...]] = {}
        self.inherited: Any = None
        self.events = 0
        self.closed = False
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
            fn: A plain callable; what it returns is ignored.
            keys: Keys that the event must have.
            who: Whose listener it is; the instrument that is running, when not given.
            completed: Called when the stream ends, unless the listener has failed.
        """
        who = who or current() or name_of(fn)
        subscription = Subscription(self, Guarded(fn, who, self.report), keys, completed)
        with self.lock:
            self._listeners = (*self._listeners, subscription)
            self._plans.clear()
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out of the stream."""
        with self.lock:
            self._listeners = tuple(s for s in self._listeners if s is not subscription)
            self._plans.clear()

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
        with self.lock:
            self.events += 1
            if self.inherited is not None and (extra := self.inherited.get()):
                event = {**extra, **event}
            shape = tuple(event)
            plan = self._plans.get(shape)
            if plan is None:
                plan = self._plan(shape)
            call = None
            try:
                for call in plan:
                    call(event)
            except BaseException:
                _deliver_rest(plan, call, event)
                raise

    def _plan(self, shape: tuple[str, ...]) -> tuple[Guarded, ...]:
        """Who gets events of these keys; remembered, for scripts give the same keys for ever."""
        keys = set(shape)
        plan = tuple(s.call for s in self._listeners if keys.issuperset(s.keys))
        if len(self._plans) < MAX_PLANS:
            self._plans[shape] = plan
        return plan

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
        with self.lock:
            self._listeners = ()
            self._plans.clear()

    def silence(self) -> None:
        """Be the stream of a forked child, without listeners."""
        self._listeners, self.closed = (), True
        self._plans.clear()


def finish(call: Guarded, completed: Callable[[], object]) -> None:
    """Tell the subscriber ``call`` that no more will come; a failure in this is its own."""
    try:
        with EventStream.lock:
            completed()
    except BaseException as error:
        if asked_for(error):
            raise
        call.failed("reduction", error, "a reduction failed at the end")


def _deliver_rest(plan: tuple[Guarded, ...], failed: Guarded | None, event: Event) -> None:
    rest = plan[plan.index(failed) + 1 :] if failed is not None else ()
    for call in rest:
        try:
            call(event)
        except BaseException:  # One wish is enough: the first is on its way already.
            continue


_streams: WeakSet[EventStream] = WeakSet()


def _after_fork() -> None:
    EventStream.lock = threading.RLock()  # Another thread may have held the old one.
    for stream in _streams:
        stream.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
