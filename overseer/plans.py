"""Who gets the events of one combination of keys: worked out once, then called without detours.

An event that a probe gives is on the script's hot path, where the caches are full of the script's
own things: each call and each lookup costs several times what it costs in a tight loop. So what
can be known for a combination of keys is looked up beforehand and kept in closures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING

from .boundary import wished
from .ways import Event, Gate, Keys, Listener, Quick, Source, Taker, ignore

if TYPE_CHECKING:
    from .stream import EventStream, Subscription

_MANY = sys.maxsize


class Tally:
    """Counts without a lock, from any thread: ``next(tally.up)`` is one more."""

    __slots__ = ("up",)

    def __init__(self) -> None:
        self.up = repeat(None, _MANY)

    @property
    def count(self) -> int:
        """How often it was counted up."""
        return _MANY - self.up.__length_hint__()


class Plan:
    """How events of one combination of keys are delivered.

    Args:
        stream: Whose events they are.
        keys: Their keys.
        subscriptions: Who listens to such events, in order.
        tally: Counts them.

    Attributes:
        push: Delivers an event of any keys.
        wanted: Not empty while the stream's sampler wants the next event.
        quicks: By which inserted code notes such events itself.
    """

    __slots__ = (
        "_changes", "_direct", "_keys", "_stream", "_subscriptions", "push", "quicks", "tally",
        "wanted",
    )  # fmt: skip

    def __init__(
        self,
        stream: EventStream,
        keys: Keys,
        subscriptions: tuple[Subscription, ...],
        tally: Tally,
    ) -> None:
        self._stream, self._keys, self._changes = stream, keys, stream.changes
        self._subscriptions = subscriptions
        self.push = stream.push
        self.tally = tally
        self.wanted: list[bool] = [True] if stream.sampler is not None else []
        self.quicks: set[Quick] = set()
        free = all(one.free for one in subscriptions)
        self._direct = tuple(one.of(keys) for one in subscriptions) if free else None

    def deliver(self, event: Event, but: object = None) -> None:
        """Deliver an event, on this thread, under the stream's lock.

        Args:
            event: The event.
            but: A listener that does not want it.

        Raises:
            BaseException: The first wish of a listener, once those after it have had the event.
        """
        next(self.tally.up)
        with self._stream.lock:
            if self.wanted:
                self._sample(event)
            plan = self
            if self._changes != self._stream.changes:
                # While another thread had the lock one listener may have handed over to another,
                # and this plan may have been made when both were there.
                plan = self._stream.plan(self._keys)
            plan._rest(event, 0, None, but)

    def outlet(self, but: object = None) -> Listener:
        """What delivers an event that may still inherit keys, in as few calls as there can be.

        Args:
            but: A listener that does not want what is delivered in this way; where events inherit
                keys it has to see to that itself.
        """
        if self._direct is None:
            inherits = self._stream.inherited is not None
            return self.push if but is None or inherits else lambda event: self.deliver(event, but)
        every = enumerate(zip(self._subscriptions, self._direct, strict=True))
        heard = [at for at, (one, fn) in every if one.fn is not but and fn is not ignore]
        fns = [self._direct[at] for at in heard]
        make = _one if len(fns) == 1 else _any_number
        return make(self._gate(), fns, lambda error, at, e: self._failed(error, heard[at], e, but))

    def values(self, keys: Keys, source: Source) -> Taker | None:
        """What takes the values of an event, in one call with all that they want; or None."""
        if self._direct is None or len(self._direct) != 1:
            return None
        return self._subscriptions[0].alone(keys, self._gate(), source)

    def _gate(self) -> Gate:
        inherited, failed = self._stream.inherited, self._failed
        return Gate(
            self.tally.up,
            self.wanted,
            None if inherited is None else inherited.get,
            self._aside,
            lambda error, event: failed(error, 0, event),
            self.quicks.add,
        )

    def _aside(self, event: Event) -> bool:
        """Count an event, and see to it if it is wanted, or inherits: then it is delivered."""
        inherited = self._stream.inherited
        if inherited is not None and inherited.get():
            self.push(event)
            return True
        next(self.tally.up)
        if self.wanted:
            self._sample(event)
        return False

    def _sample(self, event: Event) -> None:
        with self._stream.lock:
            sampler = self._stream.sampler
            if sampler is None or not sampler(event, self.tally.count):
                self.wanted.clear()

    def _failed(self, error: BaseException, at: int, event: Event, but: object = None) -> None:
        """The listener at ``at`` raised ``error``: see to that, and call those after it."""
        failed = self._subscriptions[at]
        with self._stream.lock:
            wish = error if wished(error) else None
            if wish is None:
                failed.call.failed("subscriber", error, "a subscriber failed")
                failed.dispose()
            self._rest(event, at + 1, wish, but)

    def _rest(self, event: Event, at: int, wish: BaseException | None, but: object = None) -> None:
        for number, one in enumerate(self._subscriptions[at:], at):
            try:
                if one.fn is not but:
                    one.call(event)
            except BaseException as error:
                # Within the handler: a stop is insisted on wherever it is not being handled.
                self._rest(event, number + 1, error if wish is None else wish, but)
                return
        if wish is not None:
            raise wish


#: Told what the listener of a number raised, and on which event.
Failed = Callable[[BaseException, int, Event], object]


def _one(gate: Gate, fns: list[Listener], failed: Failed) -> Listener:
    """For by far the most frequent number."""
    up, wanted, inherits, aside, *_ = gate
    (fn,) = fns

    def one(event: Event) -> None:
        if not wanted and (inherits is None or not inherits()):
            next(up)
        elif aside(event):
            return
        try:
            fn(event)
        except BaseException as error:
            failed(error, 0, event)

    return one


def _any_number(gate: Gate, fns: list[Listener], failed: Failed) -> Listener:
    up, wanted, inherits, aside, *_ = gate

    def any_number(event: Event) -> None:
        if not wanted and (inherits is None or not inherits()):
            next(up)
        elif aside(event):
            return
        at = 0
        try:
            for fn in fns:
                fn(event)
                at += 1
        except BaseException as error:
            failed(error, at, event)

    return any_number
