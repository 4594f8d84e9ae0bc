"""Probes as instruments see them; giving is imported when one of its operators is used."""

from __future__ import annotations

from collections.abc import Callable

from .bus import Bus, inheriting, record_stock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..boundary import Report
    from .operators import ProbeStream

    Event = dict[str, Any]


class Subscribed:
    """A subscription: ends with ``dispose``, or with the ``with`` block that it is used in."""

    def __init__(self, dispose: Callable[[], object]) -> None:
        self.dispose = dispose

    def __enter__(self) -> Subscribed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.dispose()


class Nowhere:
    """The probe of a selector that cannot be read: it never fires.

    Args:
        selector: As the user wrote it.
    """

    sites: tuple[Any, ...] = ()
    overridable = False

    def __init__(self, selector: str) -> None:
        self.selector = selector

    def listen(self, *args: object, **kwargs: object) -> Subscribed:
        """Nothing will come."""
        return Subscribed(lambda: None)

    arm = intercept = listen


class Probe:
    """A probe's events, with all of giving's operators.

    Args:
        placed: The probe itself.
        bus: Where ``.give()`` sends events.
        report: Where failing subscribers are reported.
        absent: What an interceptor returns to leave the value alone.
        giving: Called when all of its events are given as they are.
    """

    def __init__(
        self,
        placed: Any,
        bus: Bus,
        report: Report,
        absent: object = None,
        giving: Callable[[], object] = list,
    ) -> None:
        self.placed, self._bus, self._report = placed, bus, report
        self._absent, self._giving = absent, giving
        self._made: ProbeStream | None = None

    @property
    def _stream(self) -> ProbeStream:
        """The stream with the operators, made when it is first needed."""
        if self._made is None:
            from .operators import ProbeStream

            self._made = ProbeStream(self.placed, self._bus.give, self._report, self._absent)
        return self._made

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Call a function for each event: without operators between, when it is a plain one."""
        plain = len(args) == 1 and not kwargs and callable(args[0])
        if plain and not self.placed.overridable and not hasattr(args[0], "on_next"):
            return Subscribed(self.placed.listen(args[0]).dispose)
        return self._stream.subscribe(*args, **kwargs)

    def give(self, *keys: str, **extra: Any) -> Any:
        """Give each event to the run: as it is, or its value under ``keys``, with ``extra``.

        The stock numbers of events that are given as they are, or with a ``task``, are recorded in
        C; Python is called only for subscribers, and now and then for the record.
        """
        placed, bus = self.placed, self._bus
        own = any("task" in site.keys for site in placed.sites)
        tasked = type(extra.get("task")) is str and len(extra) == 1 and not own
        if placed.overridable or keys or (extra and not tasked):
            return self._stream.give(*keys, **extra)
        self._giving()

        def push(event: Event) -> None:
            event = {**extra, **event} if tasked else event
            bus.push(inheriting(event) if bus.inherits else event)

        every = [
            (site, (*extra, *site.keys, "$wrap") if site.name else (*extra, *site.keys))
            for site in placed.sites
        ]
        for site, all_keys in every:
            if record_stock(site, site.keys, site.name, selector=placed.selector, **extra):
                bus.recorded()
            bus.counted_by(site, all_keys)

        def wanted() -> bool:
            return any(bus.wants(all_keys) for _, all_keys in every)

        listening = placed.listen(push, always=wanted())
        bus.on_change(lambda: setattr(listening, "always", wanted()))
        bus.sampled.append(placed)
        return Subscribed(listening.dispose)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_made", "placed"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __getitem__(self, item: Any) -> Any:
        return self._stream[item]

    def __or__(self, other: Any) -> Any:
        return self._stream | other

    __ror__ = __or__

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


__all__ = ["Nowhere", "Probe", "Subscribed"]
