"""giving's operators on the run's events and on probes; the only file that imports giving.

Operators receive tensors detached from their graphs; plain subscribers receive the objects. While a
run is connected, it receives what the script gives with giving's own ``give``, from any thread.
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
from .bus import Bus, deliver, inherited_keys, numbers
from .values import detached, greatest, least

Event = dict[str, Any]
Push = Callable[[Event], object]
giving_give: Any = giving.give
#: Subscribers of the script's own ``given()`` blocks in this context.
own_handlers: Callable[[], tuple[Push, ...]] = gvr.global_context.get
#: Stands in for a key that one of voir's own events lacks.
_PASSED = object()
_min, _max = reducer(least), reducer(greatest)

# A script that imports giving continues with the same inherited keys and block numbers.
gvr.global_inherited, gvr.global_count = inherited_keys, numbers
gvr.Giver.__init__.__kwdefaults__["inherited"] = inherited_keys
giving_give.inherited = inherited_keys


class Given(gvn.Given):  # type: ignore[misc]
    """A bus as a giving stream; active as long as the run.

    It changes the destination of given values, the handling of failures, and messages.

    Args:
        bus: Source of events.
        give: Receives what ``.give()`` sends; default: the bus.
        who: Owner of subscribers that were not created by an instrument.
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
        """Subscribe; a plain callable on the root is called directly, without operators."""
        plain = len(args) == 1 and callable(args[0]) and not hasattr(args[0], "on_next")
        if plain and not kwargs and self._root is self:
            return gvn.DisposableWrapper(self, Disposable(self._bus.listen(args[0]).dispose))
        return super().subscribe(*args, **kwargs)

    def display(self, **kwargs: Any) -> Any:
        """Print each element on stdout; in colour if the terminal supports it."""
        kwargs.setdefault("colors", coloured(sys.stdout, os.environ))
        return super().display(**kwargs)

    def __getitem__(self, item: Any) -> Any:
        """The values under one or several keys; ``"?key"`` skips events without it."""
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
        """The minimum at the end; with ``scan=True`` the minimum so far, at each element."""
        plain = key is None and comparer is None
        return self.pipe(_min(**kwargs)) if plain else super().min(key, comparer, **kwargs)

    def max(self, key: Any = None, comparer: Any = None, **kwargs: Any) -> Any:
        """The maximum at the end; with ``scan=True`` the maximum so far, at each element."""
        plain = key is None and comparer is None
        return self.pipe(_max(**kwargs)) if plain else super().max(key, comparer, **kwargs)

    def group_wrap(self, name: str, **conditions: Any) -> Any:
        """A stream of each block that ``give.wrap`` marks."""
        blocks = super().group_wrap(name, **conditions)
        return blocks.map(lambda block: self._copy(block._obs))

    def fail(self, message: Any = None, exc_type: Any = giving.Failure, skip: Any = ()) -> Any:
        """Raise in the script when the stream produces an element."""
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
        """Raise in the script when the stream produces a falsy value."""
        return self.subscribe(lambda value: value or _raise(exc_type(message)))

    def give(self, *keys: str, **extra: Any) -> Any:
        """Give each element to the run: as it is, or under ``keys``; ``extra`` is added."""
        push = self._give
        if not keys and not extra:
            return self.subscribe(push)
        return self.subscribe(lambda value: push({**extra, **_named(keys, value)}))

    def counter(self, name: str, unit: str = "", *, channel: Any = None) -> Any:
        """Plot each element in the trace; several values become one line each."""
        from .marking import channel_of, counters

        return self.subscribe(counters(name, unit, channel_of(channel)))

    def instant(self, label: str, *, channel: Any = None) -> Any:
        """Mark each element in the trace: ``"Epoch {epoch} begin"``."""
        from .marking import channel_of, instants

        return self.subscribe(instants(label, channel_of(channel)))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: the overseer ends the stream."""


class ProbeStream(Given):
    """A probe's events as a giving stream.

    Args:
        placed: The probe itself.
        give: Receives what ``.give()`` sends.
        report: Reports failing subscribers.
        absent: Return value of an interceptor that keeps the variable's value.
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
        """Listen to the probe while the stream has subscribers."""
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
        """Return the value that subscribers set; the last one wins, as in ptera."""
        with Bus.lock:
            before, self._value = self._value, self._absent
            try:
                deliver(event, iter(self._bus.subscriptions))
                return self._value
            finally:
                self._value = before  # A setter may run the probed code.

    def override(self, setter: Any = lambda value: value) -> Any:
        """Set the focus variable to ``setter(value)``, or to ``setter`` if it is not callable."""
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
        """End the stream: reductions emit their results.

        Raises:
            BaseException: A stop that one of them requested, once all have ended.
        """
        self._bus.complete()


def _raise(error: BaseException) -> NoReturn:
    error.__voir_requested__ = True  # type: ignore[attr-defined]  # The boundary re-raises it.
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
        f"it takes {key!r} from every event, but an event {has}",
        f"Write [{lenient}] to skip events without it. It is switched off.",
    )


def _end(observer: Any) -> None:
    """End ``observer``; raise a plain error if it had nothing to reduce."""
    try:
        observer.on_completed()
    except (SequenceContainsNoElementsError, ZeroDivisionError) as error:
        # giving's averages divide by the number of values.
        frame = [frame for frame, _ in walk_tb(error.__traceback__)][-1]
        own = frame.f_globals.get("__name__") != "giving.extraops"
        if isinstance(error, ZeroDivisionError) and own:
            raise
        raise VoirError(
            "nothing-given",
            "it had nothing to reduce at the end: no matching event was given",
            "Give it, or write .allow_empty() after the reduction if an empty stream is fine.",
        ) from None


# giving's own give


class _Everywhere:
    """Stands in for giving's context variable, so that the run receives events from any thread."""

    def __init__(self, push: Push) -> None:
        self._push = push

    def get(self, *default: Any) -> tuple[Push, ...]:
        """The handlers of the context and of the run."""
        return (*(push for push in own_handlers() if push is not self._push), self._push)

    def __getattr__(self, name: str) -> Any:
        return getattr(gvr.global_context, name)


@contextmanager
def connected(bus: Bus) -> Iterator[None]:
    """Within the block, the bus receives what giving's own ``give`` sends, from any thread."""
    everywhere = _Everywhere(lambda event: bus.give(event) if event else None)

    def context(giver: Any) -> Any:
        own = vars(giver)["context"]
        return everywhere if own is gvr.global_context else own

    def set_context(giver: Any, value: Any) -> None:
        # A copied giver stores the context that it sees, and may outlive the run.
        vars(giver)["context"] = gvr.global_context if isinstance(value, _Everywhere) else value

    bus.enable_inheritance()
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
    """Name ``values`` by their expressions in the source of the caller's caller."""
    return dict(_resolved(gvr.resolve, report, 2, give, values))


def _resolved(
    resolve: Callable[..., Event], report: Report, frame: int, giver: object, values: Any
) -> Event:
    """As ``resolve``, without failing a script that would not have failed without a listener."""
    try:
        return resolve(frame + 1, giver, values)
    except Exception as error:
        if own_handlers():
            raise
        what = f"the name of its value cannot be determined: {said(error)}"
        report(Problem("unnamed", "give", what, here(), "Write give(name=value)."))
        return {}


__all__ = ["Given", "ProbeStream", "connected", "giving_give", "named", "own_handlers"]
