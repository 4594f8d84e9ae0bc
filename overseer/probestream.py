"""A probe's events, with giving's operators; plain callables are called without any between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactivex
from giving import gvn
from reactivex.disposable import Disposable

from .boundary import Guarded, Report, current
from .errors import VoirError
from .given import Operators, Push, ending, plain, subscribed
from .probed import Placed
from .stream import Event, EventStream, finish


class ProbeStream(Operators):
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
        end = (guarded, ending(observer))
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
        if self._root is self and len(args) == 1 and not kwargs and plain(args[0]):
            return subscribed(self, self._listen(self._guarded(args[0])))
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
