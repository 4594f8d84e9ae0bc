"""Probes for instruments; giving is imported when one of its operators is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import Problem, VoirError
from .bus import Bus, inheriting, record_stock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..boundary import Report
    from .operators import ProbeStream

    Event = dict[str, Any]


#: Parts of a selector that capture steps.
STEP_KEYS = (" as step", "compute_start", "compute_end")


class Subscribed:
    """A subscription; ends with ``dispose``, or at the end of a ``with`` block."""

    def __init__(self, dispose: Callable[[], object]) -> None:
        self.dispose = dispose

    def __enter__(self) -> Subscribed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.dispose()


class InvalidProbe:
    """Stands in for a probe whose selector is invalid; never fires.

    Args:
        selector: As the user wrote it.
    """

    sites: tuple[Any, ...] = ()
    overridable = False

    def __init__(self, selector: str) -> None:
        self.selector = selector

    def listen(self, *args: object, **kwargs: object) -> Subscribed:
        """Return a subscription without events."""
        return Subscribed(lambda: None)

    arm = intercept = listen


class Probe:
    """A probe's events, with all of giving's operators.

    Args:
        placed: The probe itself.
        bus: Receives what ``.give()`` sends.
        report: Reports failing subscribers.
        absent: Return value of an interceptor that keeps the variable's value.
        giving: Called when all events are given unchanged.
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
        """The stream with the operators, created when it is first needed."""
        if self._made is None:
            from .operators import ProbeStream

            self._made = ProbeStream(self.placed, self._bus.give, self._report, self._absent)
        return self._made

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Call a function for each event, directly if it is a plain callable."""
        plain = len(args) == 1 and not kwargs and callable(args[0])
        if plain and not self.placed.overridable and not hasattr(args[0], "on_next"):
            return Subscribed(self.placed.listen(args[0]).dispose)
        return self._stream.subscribe(*args, **kwargs)

    def give(self, *keys: str, **extra: Any) -> Any:
        """Give each event to the run: as it is, or its value under ``keys``; ``extra`` is added.

        The stock numbers of events that are given unchanged, or with only a ``task`` added, are
        recorded in C. Python then runs only for subscribers and for sampled events.
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
                bus.step_site_added()
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
        """Do nothing: the overseer ends the stream."""

    def _exit(self) -> None:
        """End the stream: reductions emit their results.

        Raises:
            BaseException: A stop that one of them requested, once all have ended.
        """
        if self._made is not None:
            self._made._exit()


__all__ = ["InvalidProbe", "Probe", "Subscribed"]


class Probing:
    """The probes of one run; created with the first of them.

    Args:
        bus: Receives what ``.give()`` sends.
        report: Reports selectors that cannot be parsed.
        debug: Logs which probe was placed where.
        charge: Adds processor nanoseconds to voir's own cost.
        cpu_ns: Returns the processor time of the calling thread.

    Attributes:
        engine: Places probes in code.
    """

    def __init__(
        self,
        bus: Bus,
        report: Report,
        debug: Callable[[str], object],
        charge: Callable[[int], object],
        cpu_ns: Callable[[], int],
    ) -> None:
        from ..probes import Engine

        self.engine = Engine(report, debug)
        self._bus, self._report = bus, report
        self._charge, self._cpu_ns = charge, cpu_ns
        self._probes: list[Probe] = []
        self._given_at: dict[str, str] = {}
        self._invalid: list[dict[str, Any]] = []
        self._verdicts: list[dict[str, Any]] | None = None

    def set(self, selector: Any, where: str, **kwargs: Any) -> Probe:
        """Set a probe; report an invalid selector, whose probe never fires."""
        from ..probes import ABSENT

        placed: Any = InvalidProbe(str(selector))
        try:
            _check_selector(selector)
            placed = self.engine.probe(selector, where=where, **kwargs)
        except VoirError as error:
            who = f"probe {selector}"
            self._report(Problem(error.slug, who, error.what, where, error.remedy))
            verdict = {"selector": str(selector), "where": where, "state": "unresolved"}
            self._invalid.append({**verdict, "fired": 0, "hint": error.what})
        giving = partial(self._giving, str(selector), where)
        probe = Probe(placed, self._bus, self._report, ABSENT, giving)
        self._probes.append(probe)
        return probe

    def _giving(self, selector: str, where: str) -> None:
        """Note that all events of a probe are given; report steps that are given twice."""
        key = " ".join(selector.split())
        if key in self._given_at and any(word in key for word in STEP_KEYS):
            what = f"it duplicates the probe at {self._given_at[key]}: steps would be counted twice"
            remedy = "Remove one of the two; voirfiles of parent directories are loaded as well."
            self._report(Problem("given-twice", f"probe {selector}", what, where, remedy))
        self._given_at.setdefault(key, where)

    # Instrumenting code

    def instrument(self, tree: Any, module: str, filename: str) -> Any:
        """Return the syntax tree to compile in place of ``tree``."""
        begun = self._cpu_ns()
        try:
            return self.engine.instrument(tree, module, filename)
        finally:
            self._charge(self._cpu_ns() - begun)

    # The end of the run

    def complete(self) -> list[Callable[[], object]]:
        """Return the functions that end the stream of each probe."""
        return [probe._exit for probe in self._probes]

    def close(self) -> None:
        """Remove the probes."""
        self._verdicts = self.verdicts()
        self.engine.close()

    def verdicts(self) -> list[dict[str, Any]]:
        """The state of each probe that the user set, as ``run.json`` stores it."""
        if self._verdicts is not None:
            return self._verdicts
        # Probes without a place are internal to instruments.
        found = [verdict for verdict in self.engine.verdicts() if "where" in verdict]
        return [*found, *self._invalid]


def _check_selector(selector: object) -> None:
    if not isinstance(selector, str) and not hasattr(selector, "encode"):
        name = getattr(selector, "__qualname__", "f")
        raise VoirError(
            "selector",
            f"a selector is a string, not {selector!r:.60}",
            f'Name the function and what to watch in it: ov.probe("//{name} > x")',
        )
