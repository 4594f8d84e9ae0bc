"""A probe as an instrument has it; giving is imported when an operator of its is used.

Most probes are given, or have a plain callable: those are served here, without a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .boundary import Report
from .stream import Event, EventStream, Listener

if TYPE_CHECKING:
    from .probestream import ProbeStream


class Placed(Protocol):
    """What a probe's stream needs of a probe in its place."""

    selector: str

    def listen(self, fn: Listener) -> Any:
        """Call ``fn(event)`` for each event; returns an object with ``dispose``.

        An error of ``fn`` is reported, and ``fn`` then called no more.
        """

    def intercept(self, fn: Callable[[Event], object]) -> Any:
        """Let ``fn(event)`` replace the value of the focus."""

    def refresh(self) -> None:
        """A listener has another way of taking events."""


class _Nothing:
    """What listens to a probe that never fires."""

    def dispose(self) -> None:
        """Nothing listened."""


class Nowhere:
    """The probe of a selector that cannot be read: it never fires.

    Args:
        selector: As the user wrote it.
    """

    def __init__(self, selector: str) -> None:
        self.selector = selector

    def listen(self, fn: Listener) -> _Nothing:
        """Nothing will come."""
        return _Nothing()

    def intercept(self, fn: Callable[[Event], object]) -> _Nothing:
        """Nothing will be replaced."""
        return _Nothing()

    def refresh(self) -> None:
        """Nothing comes, whatever the way."""


class Subscribed:
    """A subscription: ends with ``dispose``, or with the ``with`` block that it is used in."""

    def __init__(self, dispose: Callable[[], object]) -> None:
        self._dispose = dispose

    def dispose(self) -> None:
        """Listen no longer; harmless when done twice."""
        self._dispose()

    def __enter__(self) -> Subscribed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.dispose()


class Probe:
    """A probe's events, with all of giving's operators.

    Args:
        placed: The probe itself.
        given: Where ``.give()`` sends events.
        report: Where failing subscribers are reported.
        absent: What an interceptor returns to leave the value alone.
        overridable: Whether ``override`` and ``koverride`` work.
        giving: Called when all of its events are given as they are.
    """

    def __init__(
        self,
        placed: Placed,
        given: EventStream,
        report: Report,
        *,
        absent: object = None,
        overridable: bool = False,
        giving: Callable[[], object] = list,
    ) -> None:
        self._placed, self._given, self._report = placed, given, report
        self._giving = giving
        self._absent, self._overridable = absent, overridable
        self._made: ProbeStream | None = None

    @property
    def _stream(self) -> ProbeStream:
        """The stream with the operators, made when it is first needed."""
        if self._made is None:
            from .probestream import ProbeStream

            self._made = ProbeStream(
                self._placed,
                self._given.push,
                self._report,
                absent=self._absent,
                overridable=self._overridable,
            )
        return self._made

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Call a function for each event: without operators between, when it is a plain one."""
        plain = len(args) == 1 and not kwargs and callable(args[0])
        if plain and not self._overridable and not hasattr(args[0], "on_next"):
            # The probe guards its listeners itself: nothing stands between.
            return Subscribed(self._placed.listen(args[0]).dispose)
        return self._stream.subscribe(*args, **kwargs)

    def give(self, *keys: str, **extra: Any) -> Any:
        """Give each event to the run: as it is, or its value under ``keys``, with ``extra``."""
        if self._overridable or keys or extra:
            return self._stream.give(*keys, **extra)
        self._giving()
        # The run guards its listeners itself, too.
        return Subscribed(self._placed.listen(self._given.outlet(self._placed.refresh)).dispose)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_made":
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __getitem__(self, item: Any) -> Any:
        return self._stream[item]

    def __or__(self, other: Any) -> Any:
        return self._stream | other

    def __ror__(self, other: Any) -> Any:
        return other | self._stream

    def __rshift__(self, other: Any) -> Any:
        return self._stream >> other

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing: the overseer ends the stream."""

    def _exit(self) -> None:
        """End the stream: reductions emit now.

        Raises:
            BaseException: What one of them asked for, once all have ended.
        """
        if self._made is not None:
            self._made._exit()


__all__ = ["Nowhere", "Placed", "Probe", "Subscribed"]
