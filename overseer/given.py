"""giving's side of the streams: the one file that imports giving, loaded on first use.

``Given`` offers all of giving's operators on the run's events; ``ProbeStream`` does so on one
probe; both serve plain callables by the fast lane. ``connect`` makes ``giving.give`` reach the
run from any thread and any context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import giving
import reactivex
from giving import gvn, gvr
from reactivex.disposable import Disposable

from .boundary import Guarded, Report, current
from .stream import Event, EventStream

Push = Callable[[Event], object]
giving_give = giving.give
resolve = gvr.resolve


def _asked(exc_type: Callable[..., BaseException]) -> Callable[..., BaseException]:
    """Mark what ``.fail()`` raises as the user's wish, so that the boundary lets it pass."""

    def make(*args: object) -> BaseException:
        error = exc_type(*args)
        error.__voir_asked__ = True  # type: ignore[attr-defined]
        return error

    return make


class _Operators(gvn.SourceProxy):  # type: ignore[misc]
    """What voir changes in giving's operators: who may fail the script, and how one subscribes."""

    def fail(self, message: Any = None, exc_type: Any = giving.Failure, **kwargs: Any) -> Any:
        """Raise in the script when the stream produces anything."""
        return super().fail(message, _asked(exc_type), **kwargs)

    def fail_if_empty(
        self, message: Any = None, exc_type: Any = giving.Failure, **kwargs: Any
    ) -> Any:
        """Raise at the end when the stream produced nothing."""
        return super().fail_if_empty(message, _asked(exc_type), **kwargs)

    def fail_if_false(
        self, message: Any = None, exc_type: Any = giving.Failure, **kwargs: Any
    ) -> Any:
        """Raise in the script when the stream produces something falsey."""
        return super().fail_if_false(message, _asked(exc_type), **kwargs)


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

    def _copy(self, new_obs: Any) -> Given:
        return type(self)(_obs=new_obs, _root=self._root)

    def _push(self, data: Event) -> None:
        stream = self._root._stream
        assert stream is not None
        stream.push(data)

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the root is called without operators between."""
        if self._stream is not None and len(args) == 1 and not kwargs and _plain(args[0]):
            return gvn.DisposableWrapper(self, _disposable(self._stream.listen(args[0]).dispose))
        return super().subscribe(*args, **kwargs)

    def __enter__(self) -> Given:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing: the overseer ends the stream."""


class LogStream(Given):
    """The stream of what leaves the process; call it with an event to send one."""

    def __call__(self, data: Event) -> None:
        """Send ``data`` out."""
        self._push(data)


def _plain(fn: object) -> bool:
    return callable(fn) and not hasattr(fn, "on_next")


def _disposable(dispose: Callable[[], None]) -> Disposable:
    return Disposable(dispose)


def _from_stream(stream: EventStream) -> Callable[[Any, Any], Disposable]:
    def subscribe(observer: Any, scheduler: Any) -> Disposable:
        who = current() or "a subscriber of ov.given"
        made = stream.listen(observer.on_next, who=who, completed=observer.on_completed)
        return Disposable(made.dispose)

    return subscribe


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
        absent: What an interceptor returns to leave the value alone.
        overridable: Whether ``override`` and ``koverride`` work.
        report: Where failing subscribers are reported.
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
        self._completions: list[Callable[[], object]] = []
        self._value: object = absent
        self._intercepting = False
        self._pushes: list[Push] = []

    def _copy(self, new_obs: Any) -> ProbeStream:
        return type(self)(_obs=new_obs, _root=self._root)

    def _guarded(self, fn: Push) -> Guarded:
        root = self._root
        return Guarded(fn, current() or f"probe {root._placed.selector}", root._report)

    def _attach(self, observer: Any, scheduler: Any) -> Disposable:
        self._completions.append(observer.on_completed)
        return Disposable(self._listen(observer.on_next).dispose)

    def _listen(self, fn: Push) -> Any:
        assert self._placed is not None
        if not self._overridable:
            return self._placed.listen(self._guarded(fn))
        # Interceptors of one probe see the same value and the last to override wins, as in ptera.
        guarded = self._guarded(fn)
        self._pushes.append(guarded)
        if not self._intercepting:
            self._intercepting = True
            self._placed.intercept(self._intercept)
        return Disposable(lambda: self._pushes.remove(guarded))

    def _intercept(self, event: Event) -> object:
        self._value = self._absent
        for push in list(self._pushes):
            push(event)
        return self._value

    def _push(self, data: Event) -> None:
        for push in list(self._pushes):
            push(data)

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribe; a plain callable on the probe itself is called without operators between."""
        if self._root is self and len(args) == 1 and not kwargs and _plain(args[0]):
            return gvn.DisposableWrapper(self, _disposable(self._listen(args[0]).dispose))
        return super().subscribe(*args, **kwargs)

    def give(self, *keys: Any, **extra: Any) -> Any:
        """Give each event to the run; the bare form costs no operators."""
        if self._root is self and not keys and not extra and self._give is not None:
            return self.subscribe(self._give)
        return super().give(*keys, **extra)

    def override(self, setter: Any = lambda value: value) -> Any:
        """Set the focus variable to ``setter(value)``, or to ``setter`` when not callable."""
        function = setter if callable(setter) else lambda _: setter
        return self.subscribe(self._overrider(lambda data: function(data)))

    def koverride(self, setter: Callable[..., object]) -> Any:
        """Set the focus variable to ``setter(**event)``."""
        return self.subscribe(self._overrider(lambda data: setter(**data)))

    def _overrider(self, function: Callable[[Any], object]) -> Push:
        root = self._root
        if not root._overridable:
            raise TypeError(
                "override needs a probe made with ov.probe(selector, overridable=True)"
            )

        def override(data: Any) -> None:
            root._value = function(data)

        return override

    def _exit(self) -> None:
        completions, self._completions = self._completions, []
        for completed in completions:
            self._complete(completed)

    def _complete(self, completed: Callable[[], object]) -> None:
        self._guarded(lambda _: completed())({})

    def __enter__(self) -> ProbeStream:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing: the overseer ends the probe."""


class _Everywhere:
    """Stands in for giving's context variable: the run hears what any thread gives."""

    def __init__(self, context: Any, push: Push) -> None:
        self._context = context
        self._only = (push,)

    def get(self, *default: Any) -> tuple[Push, ...]:
        """The handlers of the context, and the run's."""
        own: tuple[Push, ...] = self._context.get()
        return (*own, *self._only) if own else self._only

    def set(self, value: Any) -> Any:
        """Set the handlers of the context, the run's left out."""
        return self._context.set(value)

    def reset(self, token: Any) -> None:
        """Undo ``set``."""
        self._context.reset(token)


@contextmanager
def connected(stream: EventStream) -> Iterator[None]:
    """While open, everything given with giving's own ``give`` is pushed, from any thread."""
    everywhere = _Everywhere(gvr.global_context, stream.push)
    stream.inherited = gvr.global_inherited
    defaults = gvr.Giver.__init__.__kwdefaults__
    before, defaults["context"] = defaults["context"], everywhere
    giving.give.context, own = everywhere, giving.give.context
    try:
        yield
    finally:
        defaults["context"], giving.give.context = before, own
        stream.inherited = None
