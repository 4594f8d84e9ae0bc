"""giving's operators on the run's events and on probes; the only file that imports giving.

Operators get tensors detached from their graphs; plain subscribers get the object. While a run is
connected, what a script gives with giving's own ``give`` reaches it, from any thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import giving
import reactivex
from giving import gvn, gvr
from giving.utils import reducer
from reactivex.disposable import Disposable
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from ..boundary import Guarded, Report, current, here, said
from ..errors import Problem, VoirError
from ..views.text import coloured
from .bus import Bus, Own, finish, keys_in_force, numbers
from .values import detached, greatest, least

Event = dict[str, Any]
Push = Callable[[Event], object]
giving_give: Any = giving.give
#: Stands for what an event of voir's own lacks.
_PASSED = object()
_min, _max = reducer(least), reducer(greatest)

# A script that imports giving goes on with the keys and block numbers that are in force.
gvr.global_inherited, gvr.global_count = keys_in_force, numbers
gvr.Giver.__init__.__kwdefaults__["inherited"] = keys_in_force
giving_give.inherited = keys_in_force


class Operators(gvn.SourceProxy):  # type: ignore[misc]
    """What voir changes in giving's operators: where values go, what fails, what is said."""

    _root: Any

    def _copy(self, new_obs: Any) -> Operators:
        return type(self)(_obs=new_obs, _root=self._root)

    def display(self, **kwargs: Any) -> Any:
        """Print each element on stdout; in colours only where those are shown and wanted."""
        kwargs.setdefault("colors", coloured(sys.stdout, os.environ))
        return super().display(**kwargs)

    def __getitem__(self, item: Any) -> Any:
        """The values under one key or several; ``"?key"`` passes over events without it."""
        keys = item if isinstance(item, tuple) else (item,)
        if any(isinstance(key, str) and "?" in key for key in keys):
            return super().__getitem__(item)
        return self.map(_taker(keys)).filter(lambda found: found is not _PASSED)

    def accum(self, obj: Any = None) -> Any:
        """Collect the elements in a list or set."""
        return gvn.SourceProxy.accum(self.map(detached), obj)

    def __rshift__(self, subscription: Any) -> Any:
        """Subscribe; a list or a set collects the elements."""
        collects = isinstance(subscription, (list, set))
        return gvn.SourceProxy.__rshift__(self.map(detached) if collects else self, subscription)

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
        push = self._root._give
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


def _raise(error: BaseException) -> NoReturn:
    error.__voir_asked__ = True  # type: ignore[attr-defined]  # The boundary lets it pass.
    raise error


def _named(keys: tuple[str, ...], value: Any) -> Event:
    if not keys:
        return dict(value)
    return {keys[0]: value} if len(keys) == 1 else dict(zip(keys, value, strict=True))


def _taker(keys: tuple[Any, ...]) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        try:
            found = tuple(value[key] for key in keys)
        except KeyError as error:
            if isinstance(value, Own):
                return _PASSED
            raise _without(error.args[0], keys, value) from None
        return found[0] if len(keys) == 1 else found

    return take


def _without(key: object, keys: tuple[Any, ...], value: Any) -> VoirError:
    lenient = ", ".join(repr(f"?{name}") for name in keys)
    there = ", ".join(name for name in map(str, value) if not name.startswith("$"))
    has = f"has only {there}" if there else "has no key"
    return VoirError(
        "missing-key",
        f"it takes {key!r} from every event, and one came that {has}",
        f"Write [{lenient}] to pass over events without it. It is switched off.",
    )


class Given(Operators, gvn.Given):  # type: ignore[misc]
    """The run's events as a giving stream; active for as long as the run is."""

    def __init__(self, bus: Bus | None = None, *, _obs: Any = None, _root: Any = None) -> None:
        if bus is not None:
            _obs, _root = reactivex.create(_from_bus(bus)), self
        gvn.ObservableProxy.__init__(self, _obs)
        self._bus, self._root, self._give = bus, _root, self._push

    def _push(self, data: Event) -> None:
        self._root._bus.give(data)

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the root is called without operators between."""
        if self._bus is not None and len(args) == 1 and not kwargs and plain(args[0]):
            return _subscribed(self, self._bus.listen(args[0]).dispose)
        return super().subscribe(*args, **kwargs)


class LogStream(Given):
    """The stream of what leaves the process; call it with an event to send one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._give = giving_give.produce  # What is given goes to the run, not out of it.

    def __call__(self, data: Event) -> None:
        """Send ``data`` out."""
        self._push(data)


class ProbeStream(Operators):
    """A probe's events as a giving stream.

    Args:
        placed: The probe itself.
        give: Where ``.give()`` sends events.
        report: Where failing subscribers are reported.
        absent: What an interceptor returns to leave the value alone.
    """

    def __init__(
        self,
        placed: Any = None,
        give: Push | None = None,
        report: Report | None = None,
        absent: object = None,
        *,
        _obs: Any = None,
        _root: Any = None,
    ) -> None:
        if placed is not None:
            _obs, _root = reactivex.create(self._attach), self
        gvn.ObservableProxy.__init__(self, _obs)
        self._root, self._placed, self._give, self._report = _root, placed, give, report
        self._absent = self._value = absent
        self._ends: list[tuple[Guarded, Callable[[], None]]] = []
        self._pushes: list[Guarded] | None = None

    def _attach(self, observer: Any, scheduler: Any) -> Disposable:
        overridable = self._placed.overridable

        def push(event: Event) -> None:
            with Bus.lock:  # Operators keep state, and no lock of their own.
                observer.on_next(event if overridable else detached(event))

        guarded = self._guarded(push)
        end = (guarded, _ending(observer))
        self._ends.append(end)
        dispose = self._listen(guarded)

        def leave() -> None:
            if end in self._ends:
                self._ends.remove(end)
            dispose()

        return Disposable(leave)

    def _guarded(self, fn: Push) -> Guarded:
        assert self._report is not None
        return Guarded(fn, current() or f"probe {self._placed.selector}", self._report)

    def _listen(self, guarded: Guarded) -> Callable[[], None]:
        if not self._placed.overridable:
            listening = self._placed.listen(guarded)
            return lambda: _switch_off(guarded, listening.dispose)
        # Interceptors of one probe see the same value and the last to override wins, as in ptera.
        if self._pushes is None:
            self._pushes = []
            self._placed.intercept(self._intercept)
        pushes = self._pushes
        pushes.append(guarded)
        return lambda: _switch_off(guarded, lambda: pushes.remove(guarded))

    def _intercept(self, event: Event) -> object:
        with Bus.lock:
            before, self._value = self._value, self._absent
            try:
                for push in tuple(self._pushes or ()):
                    push(event)
                return self._value
            finally:
                self._value = before  # A setter may run the code that is being probed.

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the probe itself is called without operators between."""
        if self._root is self and len(args) == 1 and not kwargs and plain(args[0]):
            return _subscribed(self, self._listen(self._guarded(args[0])))
        return super().subscribe(*args, **kwargs)

    def override(self, setter: Any = lambda value: value) -> Any:
        """Set the focus variable to ``setter(value)``, or to ``setter`` when not callable."""
        return self._override(setter if callable(setter) else lambda _: setter)

    def koverride(self, setter: Callable[..., object]) -> Any:
        """Set the focus variable to ``setter(**event)``."""
        return self._override(lambda event: setter(**event))

    def _override(self, function: Callable[[Any], object]) -> Any:
        root = self._root
        if not root._placed.overridable:
            selector = root._placed.selector
            raise VoirError(
                "not-overridable",
                f"the probe {selector} was not made to override values",
                f"Write ov.probe({selector!r}, overridable=True).",
            )

        def override(value: Any) -> None:
            root._value = function(value)

        return self.subscribe(override)

    def _exit(self) -> None:
        """End the stream: reductions emit now.

        Raises:
            BaseException: What one of them asked for, once all have ended.
        """
        ends, self._ends = self._ends, []
        wish: BaseException | None = None
        for guarded, end in ends:
            try:
                if guarded.alive:
                    finish(guarded, end)
            except BaseException as error:
                wish = error if wish is None else wish
        if wish is not None:
            raise wish


def _switch_off(guarded: Guarded, dispose: Callable[[], None]) -> None:
    if guarded.alive:
        guarded.alive = False
        dispose()


def plain(fn: object) -> bool:
    """Whether this is a callable, and no observer of reactivex's."""
    return callable(fn) and not hasattr(fn, "on_next")


def _subscribed(stream: Any, dispose: Callable[[], None]) -> Any:
    return gvn.DisposableWrapper(stream, Disposable(dispose))


def _from_bus(bus: Bus) -> Callable[[Any, Any], Disposable]:
    def subscribe(observer: Any, scheduler: Any) -> Disposable:
        who = current() or "a subscriber of ov.given"

        def push(event: Event) -> None:
            observer.on_next(detached(event))

        made = bus.listen(push, who=who, completed=_ending(observer))
        return Disposable(made.dispose)

    return subscribe


def _ending(observer: Any) -> Callable[[], None]:
    """End ``observer``, and say so in plain words when it had nothing to reduce."""

    def end() -> None:
        try:
            observer.on_completed()
        except (SequenceContainsNoElementsError, ZeroDivisionError) as error:
            if isinstance(error, ZeroDivisionError) and not _of_an_average(error):
                raise
            raise VoirError(
                "nothing-given",
                "at the end there was nothing to reduce: what it waits for was never given",
                "Give it, or write .allow_empty() after the reduction if that is as it should be.",
            ) from None

    return end


def _of_an_average(error: BaseException) -> bool:
    """Whether giving divided by its count of values, which was 0."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_globals.get("__name__") == "giving.extraops"


# giving's own give


class _Everywhere:
    """Stands in for giving's context variable: the run hears what any thread gives."""

    def __init__(self, push: Push) -> None:
        self._only = (push,)

    def get(self, *default: Any) -> tuple[Push, ...]:
        """The handlers of the context, and the run's."""
        return (*own_handlers(), *self._only)

    def set(self, value: Any) -> Any:
        """Set the handlers of the context."""
        return gvr.global_context.set(tuple(push for push in value if push not in self._only))

    def reset(self, token: Any) -> None:
        """Undo ``set``."""
        gvr.global_context.reset(token)


class _Context:
    """``Giver.context`` while connected, for givers of before and after alike."""

    def __init__(self, push: Push) -> None:
        self._everywhere = _Everywhere(push)

    def __get__(self, giver: Any, owner: Any = None) -> Any:
        own = vars(giver)["context"]
        return self._everywhere if own is gvr.global_context else own

    def __set__(self, giver: Any, value: Any) -> None:
        # A copy of a giver takes over what it sees as its context, and may outlive the run.
        vars(giver)["context"] = gvr.global_context if isinstance(value, _Everywhere) else value


@contextmanager
def connected(bus: Bus) -> Iterator[None]:
    """While open, everything given with giving's own ``give`` reaches the bus, from any thread."""
    bus.may_inherit()
    context, resolve = vars(gvr.Giver).get("context"), gvr.resolve
    gvr.Giver.context = _Context(lambda event: bus.give(event) if event else None)
    gvr.resolve = _resolver(resolve, bus.report)
    try:
        yield
    finally:
        gvr.resolve = resolve
        if context is None:
            del gvr.Giver.context
        else:
            gvr.Giver.context = context


def own_handlers() -> tuple[Push, ...]:
    """Who listens by a ``given()`` of the script's own, in this context."""
    handlers: tuple[Push, ...] = gvr.global_context.get()
    return handlers


def named(give: object, values: tuple[Any, ...], report: Report) -> Event:
    """``values`` under the names that they have in the source of the caller's caller."""
    if gvr.resolve.__module__ == __name__:
        return dict(gvr.resolve(2, give, values))
    return dict(_resolver(gvr.resolve, report)(2, give, values))


def _resolver(resolve: Callable[..., Event], report: Report) -> Callable[..., Event]:
    """A ``resolve`` that does not fail a script which would not have failed without a listener."""

    def safe(frame: int, giver: object, values: tuple[Any, ...]) -> Event:
        try:
            return resolve(frame + 1, giver, values)
        except Exception as error:
            if own_handlers():
                raise
            what = f"what it gives has no name that can be found: {said(error)}"
            report(Problem("unnamed", "give", what, here(), "Write give(name=value)."))
            return {}

    return safe


__all__ = ["Given", "LogStream", "Operators", "ProbeStream", "connected", "named", "own_handlers"]
