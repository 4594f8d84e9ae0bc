"""giving's operators on the run's streams; loaded on first use.

``Given`` offers all of giving's operators on the run's events; ``ProbeStream`` does so on one
probe; both serve plain callables by the fast lane. This file and ``connection.py`` are the ones
that import giving.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import giving
import reactivex
from giving import gvn
from reactivex.disposable import Disposable
from reactivex.internal.exceptions import SequenceContainsNoElementsError

from .boundary import Guarded, Report, current
from .connection import connected
from .errors import VoirError
from .stream import Event, EventStream, finish

Push = Callable[[Event], object]


class _Operators(gvn.SourceProxy):  # type: ignore[misc]
    """What voir changes in giving's operators: where values go, what fails, what is said."""

    _root: Any

    def _copy(self, new_obs: Any) -> _Operators:
        return type(self)(_obs=new_obs, _root=self._root)

    def __getitem__(self, item: Any) -> Any:
        """The values under one key or several; ``"?key"`` passes over events without it."""
        keys = item if isinstance(item, tuple) else (item,)
        if any(isinstance(key, str) and "?" in key for key in keys):
            return super().__getitem__(item)
        return self.map(_taker(keys))

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
            raise _without(error.args[0], keys, value) from None
        return found[0] if len(keys) == 1 else found

    return take


def _without(key: object, keys: tuple[Any, ...], value: Any) -> VoirError:
    lenient = ", ".join(repr(f"?{name}") for name in keys)
    there = ", ".join(map(str, value)) or "nothing"
    return VoirError(
        "missing-key",
        f"it takes {key!r} from every event, and one came that has only {there}",
        f"Write [{lenient}] to pass over events without it. It is switched off.",
    )


class Given(_Operators, gvn.Given):  # type: ignore[misc]
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
        if self._stream is not None and len(args) == 1 and not kwargs and _plain(args[0]):
            return _subscribed(self, self._stream.listen(args[0]).dispose)
        return super().subscribe(*args, **kwargs)


class LogStream(Given):
    """The stream of what leaves the process; call it with an event to send one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._give = giving.give.produce  # What is given goes to the run, not out of it.

    def __call__(self, data: Event) -> None:
        """Send ``data`` out."""
        self._push(data)


def _plain(fn: object) -> bool:
    return callable(fn) and not hasattr(fn, "on_next")


def _subscribed(stream: Any, dispose: Callable[[], None]) -> Any:
    return gvn.DisposableWrapper(stream, Disposable(dispose))


def _from_stream(stream: EventStream) -> Callable[[Any, Any], Disposable]:
    def subscribe(observer: Any, scheduler: Any) -> Disposable:
        who = current() or "a subscriber of ov.given"
        made = stream.listen(observer.on_next, who=who, completed=_ending(observer))
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


class Placed(Protocol):
    """What a probe stream needs of a probe in its place."""

    selector: str

    def listen(self, fn: Push) -> Any:
        """Call ``fn(event)`` for each event; returns an object with ``dispose``."""

    def intercept(self, fn: Callable[[Event], object]) -> Any:
        """Let ``fn(event)`` replace the value of the focus."""


class Nowhere:
    """The probe of a selector that cannot be read: it never fires.

    Args:
        selector: As the user wrote it.
    """

    def __init__(self, selector: str) -> None:
        self.selector = selector

    def listen(self, fn: Push) -> Disposable:
        """Nothing will come."""
        return Disposable()

    def intercept(self, fn: Callable[[Event], object]) -> Disposable:
        """Nothing will be replaced."""
        return Disposable()


class ProbeStream(_Operators):
    """A probe's events as a giving stream.

    Args:
        placed: The probe itself.
        give: Where ``.give()`` sends events.
        report: Where failing subscribers are reported.
        absent: What an interceptor returns to leave the value alone.
        overridable: Whether ``override`` and ``koverride`` work.
    """

    def __init__(
        self,
        placed: Placed | None = None,
        give: Push | None = None,
        report: Report | None = None,
        *,
        absent: object = None,
        overridable: bool = False,
        _obs: Any = None,
        _root: Any = None,
    ) -> None:
        if placed is not None:
            _obs, _root = reactivex.create(self._attach), self
        gvn.ObservableProxy.__init__(self, _obs)
        self._root = _root
        self._placed, self._give, self._report = placed, give, report
        self._absent, self._overridable = absent, overridable
        self._ends: list[tuple[Guarded, Callable[[], None]]] = []
        self._value: object = absent
        self._pushes: list[Guarded] | None = None

    def _guarded(self, fn: Push) -> Guarded:
        assert self._placed is not None
        assert self._report is not None
        return Guarded(fn, current() or f"probe {self._placed.selector}", self._report)

    def _attach(self, observer: Any, scheduler: Any) -> Disposable:
        def push(event: Event) -> None:
            with EventStream.lock:  # Operators keep state, and no lock of their own.
                observer.on_next(event)

        guarded = self._guarded(push)
        end = (guarded, _ending(observer))
        self._ends.append(end)
        dispose = self._listen(guarded)

        def leave() -> None:
            if end in self._ends:
                self._ends.remove(end)
            dispose()

        return Disposable(leave)

    def _listen(self, guarded: Guarded) -> Callable[[], None]:
        assert self._placed is not None
        if not self._overridable:
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
        with EventStream.lock:
            before, self._value = self._value, self._absent
            try:
                for push in tuple(self._pushes or ()):
                    push(event)
                return self._value
            finally:
                self._value = before  # A setter may run the code that is being probed.

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the probe itself is called without operators between."""
        if self._root is self and len(args) == 1 and not kwargs and _plain(args[0]):
            return _subscribed(self, self._listen(self._guarded(args[0])))
        return super().subscribe(*args, **kwargs)

    def override(self, setter: Any = lambda value: value) -> Any:
        """Set the focus variable to ``setter(value)``, or to ``setter`` when not callable."""
        function = setter if callable(setter) else lambda _: setter
        return self._override(function)

    def koverride(self, setter: Callable[..., object]) -> Any:
        """Set the focus variable to ``setter(**event)``."""
        return self._override(lambda event: setter(**event))

    def _override(self, function: Callable[[Any], object]) -> Any:
        root = self._root
        if not root._overridable:
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


__all__ = ["Given", "LogStream", "Nowhere", "Placed", "ProbeStream", "connected"]
