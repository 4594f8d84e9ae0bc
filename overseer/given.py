"""giving's operators on the run's streams; loaded on first use.

``Given`` offers all of giving's operators on the run's events, and serves plain callables by the
fast lane. This file, ``probestream.py`` and ``connection.py`` are the ones that import giving.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import giving
import reactivex
from giving import gvn
from giving.utils import reducer
from reactivex.disposable import Disposable
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from .boundary import current
from .colours import coloured
from .connection import connected
from .errors import VoirError
from .holding import HOLDING, Greatest, Least, detached
from .stream import Event, EventStream
from .whose import own

Push = Callable[[Event], object]

#: Stands for what an event of voir's own lacks.
PASSED = object()

_least, _greatest = reducer(Least), reducer(Greatest)


class Operators(gvn.SourceProxy):  # type: ignore[misc]
    """What voir changes in giving's operators: where values go, what fails, what is said.

    What keeps values, :data:`.HOLDING`, gets tensors detached; plain subscribers the objects.
    """

    _root: Any

    def _copy(self, new_obs: Any) -> Operators:
        return type(self)(_obs=new_obs, _root=self._root)

    def display(self, **kwargs: Any) -> Any:
        """Print each element on stdout; in colours only where those are shown and wanted."""
        kwargs.setdefault("colors", coloured(sys.stdout, os.environ))
        return super().display(**kwargs)

    def __getitem__(self, item: Any) -> Any:
        """The values under one key or several; ``"?key"`` passes over events without it.

        ``"key"`` passes over those of voir's own: in voir 0.2 there were none unasked.
        """
        keys = item if isinstance(item, tuple) else (item,)
        if any(isinstance(key, str) and "?" in key for key in keys):
            return super().__getitem__(item)
        taken = self.map(_taker(keys))
        # A probe's stream has none of voir's own.
        return taken.filter(_is_there) if isinstance(self, Given) else taken

    def __rshift__(self, subscription: Any) -> Any:
        """Subscribe; a list or a set collects the elements."""
        holds = isinstance(subscription, (list, set))
        return gvn.SourceProxy.__rshift__(_held(self) if holds else self, subscription)

    def min(self, key: Any = None, comparer: Any = None, **kwargs: Any) -> Any:
        """The least element, at the end; with ``scan=True`` the least so far, at each."""
        if key is None and comparer is None:
            return _held(self).pipe(_least(**kwargs))
        return gvn.SourceProxy.min(_held(self), key, comparer, **kwargs)

    def max(self, key: Any = None, comparer: Any = None, **kwargs: Any) -> Any:
        """The greatest element, at the end; with ``scan=True`` the greatest so far, at each."""
        if key is None and comparer is None:
            return _held(self).pipe(_greatest(**kwargs))
        return gvn.SourceProxy.max(_held(self), key, comparer, **kwargs)

    def affix(self, **streams: Any) -> Any:
        """Add to each event what ``streams`` have for it, or make of this stream."""

        def made(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda source: _held(make(self._copy(source._obs)))

        others = {k: _held(v) if hasattr(v, "subscribe") else made(v) for k, v in streams.items()}
        return gvn.SourceProxy.affix(_held(self), **others)

    def group_wrap(self, name: str, **conditions: Any) -> Any:
        """A stream of each block that ``give.wrap`` marks; it holds what this one would."""
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


def _held(stream: Any) -> Any:
    """The stream with tensors detached; what is none of giving's is returned as it is."""
    return stream.map(detached) if isinstance(stream, gvn.ObservableProxy) else stream


def _holding(name: str) -> Callable[..., Any]:
    method = getattr(gvn.SourceProxy, name)

    @wraps(method)
    def held(self: Any, *others: Any, **kwargs: Any) -> Any:
        return method(_held(self), *map(_held, others), **kwargs)

    return held


for _name in HOLDING:
    if hasattr(gvn.SourceProxy, _name):  # Other versions of giving have others.
        setattr(Operators, _name, _holding(_name))


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
            if own(value):
                return PASSED
            raise _without(error.args[0], keys, value) from None
        return found[0] if len(keys) == 1 else found

    return take


def _is_there(found: object) -> bool:
    return found is not PASSED


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

    def __init__(
        self, stream: EventStream | None = None, *, _obs: Any = None, _root: Any = None
    ) -> None:
        if stream is not None:
            _obs, _root = reactivex.create(_from_stream(stream)), self
        gvn.ObservableProxy.__init__(self, _obs)
        self._stream = stream
        self._root = _root
        self._give = self._push

    def _push(self, data: Event) -> None:
        stream = self._root._stream
        assert stream is not None
        stream.push(data)

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the root is called without operators between."""
        if self._stream is not None and len(args) == 1 and not kwargs and plain(args[0]):
            return subscribed(self, self._stream.listen(args[0]).dispose)
        return super().subscribe(*args, **kwargs)


class LogStream(Given):
    """The stream of what leaves the process; call it with an event to send one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._give = giving.give.produce  # What is given goes to the run, not out of it.

    def __call__(self, data: Event) -> None:
        """Send ``data`` out."""
        self._push(data)


def plain(fn: object) -> bool:
    return callable(fn) and not hasattr(fn, "on_next")


def subscribed(stream: Any, dispose: Callable[[], None]) -> Any:
    return gvn.DisposableWrapper(stream, Disposable(dispose))


def _from_stream(stream: EventStream) -> Callable[[Any, Any], Disposable]:
    def subscribe(observer: Any, scheduler: Any) -> Disposable:
        who = current() or "a subscriber of ov.given"
        made = stream.listen(observer.on_next, who=who, completed=ending(observer))
        return Disposable(made.dispose)

    return subscribe


def ending(observer: Any) -> Callable[[], None]:
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


__all__ = ["Given", "LogStream", "connected"]
