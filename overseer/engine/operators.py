"""giving's operators on the run's events and on probes; the only file that imports giving.

Operators get tensors detached from their graphs; plain subscribers get the object. While a run is
connected, what a script gives with giving's own ``give`` reaches it, from any thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from traceback import walk_tb
from typing import Any, NoReturn

import giving
import reactivex
from giving import gvn, gvr
from giving.utils import reducer
from reactivex.disposable import Disposable
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from ..boundary import Report, current, here, said
from ..context import Own
from ..errors import Problem, VoirError
from ..views.text import coloured
from .bus import Bus, deliver, keys_in_force, numbers
from .values import detached, greatest, least

Event = dict[str, Any]
Push = Callable[[Event], object]
giving_give: Any = giving.give
#: Who listens by a ``given()`` of the script's own, in this context.
own_handlers: Callable[[], tuple[Push, ...]] = gvr.global_context.get
#: Stands for what an event of voir's own lacks.
_PASSED = object()
_min, _max = reducer(least), reducer(greatest)

# A script that imports giving goes on with the keys and block numbers that are in force.
gvr.global_inherited, gvr.global_count = keys_in_force, numbers
gvr.Giver.__init__.__kwdefaults__["inherited"] = keys_in_force
giving_give.inherited = keys_in_force


class Given(gvn.Given):  # type: ignore[misc]
    """A bus as a giving stream; active for as long as the run is.

    What is changed in giving's operators: where values go, what fails, what is said.

    Args:
        bus: Where events come from.
        give: Where ``.give()`` sends events; into the bus, when not given.
        who: Whose subscribers are that no instrument has made.
    """

    def __init__(
        self, bus: Bus, give: Push | None = None, who: str = "a subscriber of ov.given"
    ) -> None:
        gvn.ObservableProxy.__init__(self, reactivex.create(self._attach))
        self._root, self._bus, self._who = self, bus, who
        self._give = give or bus.give
        self._prepared: Callable[[Event], Event] = detached

    def _attach(self, observer: Any, scheduler: Any) -> Disposable:
        prepared, on_next = self._prepared, observer.on_next

        def push(event: Event) -> None:
            on_next(prepared(event))

        who, completed = current() or self._who, partial(_end, observer)
        return Disposable(self._bus.listen(push, who=who, completed=completed).dispose)

    def _copy(self, new_obs: Any) -> Any:
        stream = copy(self)
        stream._obs = new_obs
        return stream

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the root is called without operators between."""
        plain = len(args) == 1 and callable(args[0]) and not hasattr(args[0], "on_next")
        if plain and not kwargs and self._root is self:
            return gvn.DisposableWrapper(self, Disposable(self._bus.listen(args[0]).dispose))
        return super().subscribe(*args, **kwargs)

    def display(self, **kwargs: Any) -> Any:
        """Print each element on stdout; in colours only where those are shown and wanted."""
        kwargs.setdefault("colors", coloured(sys.stdout, os.environ))
        return super().display(**kwargs)

    def __getitem__(self, item: Any) -> Any:
        """The values under one key or several; ``"?key"`` passes over events without it."""
        keys = item if isinstance(item, tuple) else (item,)
        if any(isinstance(key, str) and "?" in key for key in keys):
            return super().__getitem__(item)

        def take(value: Any) -> Any:
            try:
                found = tuple(value[key] for key in keys)
            except KeyError as error:
                if isinstance(value, Own):
                    return _PASSED
                raise _without(error.args[0], keys, value) from None
            return found[0] if len(keys) == 1 else found

        return self.map(take).filter(lambda found: found is not _PASSED)

    def accum(self, obj: Any = None) -> Any:
        """Collect the elements in a list or set."""
        return gvn.Given.accum(self.map(detached), obj)

    def __rshift__(self, subscription: Any) -> Any:
        """Subscribe; a list or a set collects the elements."""
        collects = isinstance(subscription, (list, set))
        return gvn.Given.__rshift__(self.map(detached) if collects else self, subscription)

    def min(self, key: Any = None, comparer: Any = None, **kwargs: Any) -> Any:
        """The least element, at the end; with ``scan=True`` the least so far, at each."""
        plain = key is None and comparer is None
        return self.pipe(_min(**kwargs)) if plain else super().min(key, comparer, **kwargs)

    def max(self, key: Any = None, comparer: Any = None, **kwargs: Any) -> Any:
        """The greatest element, at the end; with ``scan=True`` the greatest so far, at each."""
        plain = key is None and comparer is None
        return self.pipe(_max(**kwargs)) if plain else super().max(key, comparer, **kwargs)

    def group_wrap(self, name: str, **conditions: Any) -> Any:
        """A stream of each block that ``give.wrap`` marks."""
        blocks = super().group_wrap(name, **conditions)
        return blocks.map(lambda block: self._copy(block._obs))

    def fail(self, message: Any = None, exc_type: Any = giving.Failure, skip: Any = ()) -> Any:
        """Raise in the script when the stream produces anything."""
        stream = self if message is None else self.format(message)
        return stream.subscribe(lambda value: _raise(exc_type(value)))

    def fail_if_empty(
        self, message: Any = "Stream is empty", exc_type: Any = giving.Failure, skip: Any = ()
    ) -> Any:
        """Raise at the end when the stream produced nothing."""
        return self.is_empty().subscribe(lambda empty: empty and _raise(exc_type(message)))

    def fail_if_false(
        self, message: Any = "Value is false", exc_type: Any = giving.Failure, skip: Any = ()
    ) -> Any:
        """Raise in the script when the stream produces something falsey."""
        return self.subscribe(lambda value: value or _raise(exc_type(message)))

    def give(self, *keys: str, **extra: Any) -> Any:
        """Give each element to the run: as it is, or under ``keys``, with ``extra`` along."""
        push = self._give
        if not keys and not extra:
            return self.subscribe(push)
        return self.subscribe(lambda value: push({**extra, **_named(keys, value)}))

    def counter(self, name: str, unit: str = "", *, channel: Any = None) -> Any:
        """Show each element in the trace as a graph; of several values, one line for each."""
        from .marking import channel_of, counters

        return self.subscribe(counters(name, unit, channel_of(channel)))

    def instant(self, label: str, *, channel: Any = None) -> Any:
        """Mark each element in the trace: ``"Epoch {epoch} begin"``."""
        from .marking import channel_of, instants

        return self.subscribe(instants(label, channel_of(channel)))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing: the overseer ends the stream."""


class ProbeStream(Given):
    """A probe's events as a giving stream.

    Args:
        placed: The probe itself.
        give: Where ``.give()`` sends events.
        report: Where failing subscribers are reported.
        absent: What an interceptor returns to leave the value alone.
    """

    def __init__(self, placed: Any, give: Push, report: Report, absent: object = None) -> None:
        super().__init__(Bus(report), give, f"probe {placed.selector}")
        self._placed, self._absent, self._value = placed, absent, absent
        self._listening: Any = None
        self._listen = partial(placed.listen, self._hand)
        if placed.overridable:
            self._listen = partial(placed.intercept, self._replaced)
            self._prepared = lambda event: event
        self._bus.on_change(self._follow)

    def _follow(self) -> None:
        """Listen to the probe while somebody listens here."""
        with Bus.lock:
            heard = bool(self._bus.subscriptions)
            if heard and self._listening is None:
                self._listening = self._listen()
            elif not heard and self._listening is not None:
                self._listening.dispose()
                self._listening = None

    def _hand(self, event: Event) -> None:
        with Bus.lock:
            deliver(event, iter(self._bus.subscriptions))

    def _replaced(self, event: Event) -> object:
        """The value that a subscriber sets: all see the same, and the last wins, as in ptera."""
        with Bus.lock:
            before, self._value = self._value, self._absent
            try:
                deliver(event, iter(self._bus.subscriptions))
                return self._value
            finally:
                self._value = before  # A setter may run the code that is being probed.

    def override(self, setter: Any = lambda value: value) -> Any:
        """Set the focus variable to ``setter(value)``, or to ``setter`` when not callable."""
        return self._override(setter if callable(setter) else lambda _: setter)

    def koverride(self, setter: Callable[..., object]) -> Any:
        """Set the focus variable to ``setter(**event)``."""
        return self._override(lambda event: setter(**event))

    def _override(self, function: Callable[[Any], object]) -> Any:
        if not self._placed.overridable:
            selector = self._placed.selector
            raise VoirError(
                "not-overridable",
                f"the probe {selector} was not made to override values",
                f"Write ov.probe({selector!r}, overridable=True).",
            )

        def override(value: Any) -> None:
            self._root._value = function(value)

        return self.subscribe(override)

    def _exit(self) -> None:
        """End the stream: reductions emit now.

        Raises:
            BaseException: What one of them asked for, once all have ended.
        """
        self._bus.complete()


def _raise(error: BaseException) -> NoReturn:
    error.__voir_requested__ = True  # type: ignore[attr-defined]  # The boundary lets it pass.
    raise error


def _named(keys: tuple[str, ...], value: Any) -> Event:
    if not keys:
        return dict(value)
    return {keys[0]: value} if len(keys) == 1 else dict(zip(keys, value, strict=True))


def _without(key: object, keys: tuple[Any, ...], value: Any) -> VoirError:
    lenient = ", ".join(repr(f"?{name}") for name in keys)
    there = ", ".join(name for name in map(str, value) if not name.startswith("$"))
    has = f"has only {there}" if there else "has no key"
    return VoirError(
        "missing-key",
        f"it takes {key!r} from every event, and one came that {has}",
        f"Write [{lenient}] to pass over events without it. It is switched off.",
    )


def _end(observer: Any) -> None:
    """End ``observer``, and say so in plain words when it had nothing to reduce."""
    try:
        observer.on_completed()
    except (SequenceContainsNoElementsError, ZeroDivisionError) as error:
        # giving's averages divide by the count of values.
        frame = [frame for frame, _ in walk_tb(error.__traceback__)][-1]
        own = frame.f_globals.get("__name__") != "giving.extraops"
        if isinstance(error, ZeroDivisionError) and own:
            raise
        raise VoirError(
            "nothing-given",
            "at the end there was nothing to reduce: what it waits for was never given",
            "Give it, or write .allow_empty() after the reduction if that is as it should be.",
        ) from None


# giving's own give


class _Everywhere:
    """Stands in for giving's context variable: the run hears what any thread gives."""

    def __init__(self, push: Push) -> None:
        self._push = push

    def get(self, *default: Any) -> tuple[Push, ...]:
        """The handlers of the context, and the run's."""
        return (*(push for push in own_handlers() if push is not self._push), self._push)

    def __getattr__(self, name: str) -> Any:
        return getattr(gvr.global_context, name)


@contextmanager
def connected(bus: Bus) -> Iterator[None]:
    """While open, everything given with giving's own ``give`` reaches the bus, from any thread."""
    everywhere = _Everywhere(lambda event: bus.give(event) if event else None)

    def context(giver: Any) -> Any:
        own = vars(giver)["context"]
        return everywhere if own is gvr.global_context else own

    def set_context(giver: Any, value: Any) -> None:
        # A copy of a giver takes over what it sees as its context, and may outlive the run.
        vars(giver)["context"] = gvr.global_context if isinstance(value, _Everywhere) else value

    bus.may_inherit()
    before, resolve = vars(gvr.Giver).get("context"), gvr.resolve
    gvr.Giver.context = property(context, set_context)
    gvr.resolve = partial(_resolved, resolve, bus.report)
    try:
        yield
    finally:
        gvr.resolve = resolve
        if before is None:
            del gvr.Giver.context
        else:
            gvr.Giver.context = before


def named(give: object, values: tuple[Any, ...], report: Report) -> Event:
    """``values`` under the names that they have in the source of the caller's caller."""
    return dict(_resolved(gvr.resolve, report, 2, give, values))


def _resolved(
    resolve: Callable[..., Event], report: Report, frame: int, giver: object, values: Any
) -> Event:
    """``resolve`` that does not fail a script which would not have failed without a listener."""
    try:
        return resolve(frame + 1, giver, values)
    except Exception as error:
        if own_handlers():
            raise
        what = f"what it gives has no name that can be found: {said(error)}"
        report(Problem("unnamed", "give", what, here(), "Write give(name=value)."))
        return {}


__all__ = ["Given", "ProbeStream", "connected", "giving_give", "named", "own_handlers"]
