"""What a script or an instrument records with: channels, spans, instants, counters, histograms.

When nothing is traced each of these returns at once, and a span is one object that does nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from ..clock import now_ns
from ..nothing import nothing
from .describe import LABEL, label_of, quantities, quantity, settled
from .recorder import BEGIN, CHANNELS, END, INSTANT, VALUE, Put, recorder
from .tracks import COUNTER, Track, local

F = TypeVar("F", bound=Callable[..., Any])

#: The channel of whoever makes up too many.
OTHERS = "(other channels)"
#: Series of one counter, and counters of one channel, that are told apart.
SERIES = 1000


class SpanLike(Protocol):
    """A span, or what stands in for one."""

    def __enter__(self) -> SpanLike: ...
    def __exit__(self, *error: Any) -> Any: ...
    def __call__(self, function: F, /) -> F:
        """Do the same to each call of ``function``."""


#: Whether an event loop runs on this thread, and where its tasks' events belong; there is none
#: before asyncio is imported.
_running_loop: Callable[[], object] | None = None
_task_row: Callable[[object, int, str | None], Track]


def tell_tasks_apart(asyncio: Any) -> None:
    """Have rows for tasks of ``asyncio`` that take turns."""
    from .tasks import Tasks

    global _running_loop, _task_row
    # What torch.compile compiles breaks off there, instead of warning of what it does not know.
    spans = Span.__enter__, Span.__exit__, Channel.begin, Channel.end
    for method in (*spans, Channel.instant, Series.add):
        vars(method)["_torchdynamo_disable"] = True
    _task_row, _running_loop = Tasks(asyncio).row, asyncio._get_running_loop


def _row(kind: int, label: str | None) -> Track:
    """The row of the task that runs now, or of the thread."""
    loop = _running_loop() if _running_loop is not None else None
    return local.track if loop is None else _task_row(loop, kind, label)


class Span:
    """A stretch of time on the thread that enters it; as often as it is entered."""

    __slots__ = ("_arguments", "_channel", "_label", "_put")

    def __init__(self, channel: Channel, label: str, arguments: dict[str, Any], put: Put) -> None:
        self._channel = channel
        self._label = label
        self._arguments = arguments
        self._put = put

    def __enter__(self) -> Span:
        label = self._label
        alone = _running_loop is None or _running_loop() is None
        row = local.track if alone else _row(BEGIN, label)
        self._put((now_ns(), BEGIN, row, self._channel.name, label, self._arguments))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        failed = None if kind is None else {"error": kind.__name__}
        label = self._label
        alone = _running_loop is None or _running_loop() is None
        row = local.track if alone else _row(END, label)
        self._put((now_ns(), END, row, self._channel.name, label, failed))

    def __call__(self, function: F, /) -> F:
        """Record a span for each call of ``function``."""
        return self._channel.around(function, self._label, self._arguments)


class Channel:
    """A source of events that can be switched on and off; made by :func:`channel`.

    Attributes:
        name: What the viewer calls it: the events' category.
        enabled: Whether it records while a trace is written.
        always: Whether it records outside of the steps that were asked for too.
    """

    __slots__ = ("_counters", "_put", "always", "enabled", "name")

    def __init__(self, name: str, always: bool = False) -> None:
        self.name = name
        self.always = always
        self.enabled = recorder.wants(name)
        self._counters: dict[str, Counter] = {}
        self._put: Put | None = None
        self.follow()

    def __repr__(self) -> str:
        return f"Channel({self.name!r}, {'on' if self.enabled else 'off'})"

    def follow(self) -> None:
        """Record from here on as the recorder says, also when it changes its mind meanwhile."""
        while True:
            self._put = put = recorder.put_of(self)
            self.__class__ = Channel if put is not None else Silent
            if recorder.put_of(self) == put:
                return

    def enable(self) -> None:
        """Record while a trace is written."""
        self.enabled = True
        self.follow()

    def disable(self) -> None:
        """Record nothing until enabled again; spans that are open still end."""
        self.enabled = False
        self.follow()

    @property
    def recording(self) -> bool:
        """Whether what is recorded now gets into a trace, the window of steps left aside."""
        return self._put is not None

    def span(self, label: object, /, **arguments: Any) -> SpanLike:
        """A context manager, or decorator, whose time is shown under ``label``; they nest."""
        put = self._put
        if put is None:  # Switched off by another thread just now.
            return nothing  # type: ignore[no-any-return]
        if type(label) is not str or len(label) > LABEL:
            label = label_of(label)
        return Span(self, label, settled(arguments) if arguments else arguments, put)

    def begin(self, label: object, /, **arguments: Any) -> None:
        """Begin a span on this thread; :meth:`end` with the same label ends it."""
        put = self._put
        if put is not None:
            text = label_of(label)
            put((now_ns(), BEGIN, _row(BEGIN, text), self.name, text, settled(arguments)))

    def end(self, label: object = None, /) -> None:
        """End the innermost span of this label on this thread, and those within; any without."""
        if self._put is not None:
            text = None if label is None else label_of(label)
            recorder.put((now_ns(), END, _row(END, text), self.name, text, None))

    def instant(self, label: object, /, **arguments: Any) -> None:
        """Mark this moment on this thread."""
        put = self._put
        if put is not None:
            if type(label) is not str or len(label) > LABEL:
                label = label_of(label)
            if arguments:
                settled(arguments)
            alone = _running_loop is None or _running_loop() is None
            row = local.track if alone else _row(INSTANT, None)
            put((now_ns(), INSTANT, row, self.name, label, arguments))

    def counter(self, name: object, unit: str = "") -> Counter:
        """A graph of numbers over time; the same one for the same name."""
        text = label_of(name)
        found = self._counters.get(text)
        if found is None:
            if len(self._counters) >= SERIES:
                text = OTHERS
            found = self._counters.setdefault(text, Counter(self, text, label_of(unit)))
        return found

    def histogram(self, name: object, edges: Iterable[float], unit: str = "") -> Histogram:
        """How values are distributed, over time: a number for each bin between two edges."""
        return Histogram(self.counter(name, unit), edges)

    def instrument(self, target: Any, methods: str | Iterable[str]) -> None:
        """Record a span for each call of these methods of ``target``: an object, class or module.

        Nothing is changed when the channel does not record. What cannot be instrumented stays as
        it is, and is named by an instant.
        """
        if self._put is None:
            return
        from .instrumenting import instrument, label_of_method

        for name in [methods] if isinstance(methods, str) else methods or ():
            label = label_of_method(target, name)
            try:
                instrument(target, name, label, partial(self.span, label))
            except Exception as error:  # A class may refuse for any reason.
                why = f"{type(error).__name__}: {error}"
                self.instant(f"not instrumented: {label}", error=why)

    def around(self, function: F, label: str, arguments: dict[str, Any]) -> F:
        """``function`` with a span around each call."""
        from .instrumenting import around

        return around(function, label, partial(self.span, label, **arguments))  # type: ignore[no-any-return]

    # For those who know better when and where

    def at(self, time: int, kind: int, track: Track, label: object, arguments: Any = None) -> None:
        """Record something that happened at ``time`` (of ``clock.now_ns``) on ``track``."""
        put = self._put if kind != END else recorder.put
        if self._put is not None and put is not None:
            put((time, kind, track, self.name, label, arguments))

    def lasted(
        self, begin: int, end: int, track: Track, label: object, arguments: Any = None
    ) -> None:
        """Record a span that is over, from ``begin`` to ``end`` on ``track``."""
        put = self._put
        if put is not None:
            name = self.name
            put((begin, BEGIN, track, name, label, arguments, end, END, track, name, label, None))


class Silent(Channel):
    """A channel while it does not record; it need not even ask whether it does."""

    __slots__ = ()

    def span(self, label: object, /, **arguments: Any) -> SpanLike:
        """Nothing that a context manager or decorator can do."""
        return nothing  # type: ignore[no-any-return]


class Series:
    """One line of a counter's graph."""

    __slots__ = ("_channel", "track")

    def __init__(self, channel: Channel, name: str, unit: str, group: str) -> None:
        self._channel = channel
        self.track = Track(name, COUNTER, unit, group)

    def add(self, value: Any) -> None:
        """The value from now on; a scalar on a device is read later, off this thread."""
        put = self._channel._put
        if put is not None:
            if type(value) is not float and type(value) is not int:
                value = quantity(value)
            put((now_ns(), VALUE, self.track, self._channel.name, value, None))


class Counter(Series):
    """A graph: a line of its own, and others in the same picture by :meth:`series`."""

    __slots__ = ("_name", "_series", "_unit")

    def __init__(self, channel: Channel, name: str, unit: str) -> None:
        super().__init__(channel, name, unit, f"{channel.name}/{name}")
        self._name, self._unit = name, unit
        self._series: dict[str, Series] = {}

    def series(self, name: object) -> Series:
        """Another line of the graph; the same one for the same name."""
        text = label_of(name)
        if text not in self._series:
            if len(self._series) >= SERIES:
                text = OTHERS
            group = self.track.group
            made = Series(self._channel, f"{self._name}: {text}", self._unit, group)
            self._series.setdefault(text, made)
        return self._series[text]


class Histogram:
    """Counts of values between edges, over time; one line for each bin."""

    __slots__ = ("_bins", "_channel", "_edges")

    def __init__(self, counter: Counter, edges: Iterable[float]) -> None:
        self._channel = counter._channel
        known = {float(edge) for edge in edges}
        self._edges = sorted(edge for edge in known if edge == edge)[:SERIES]
        bounds = [f"{edge:g}" for edge in self._edges]
        if len(set(bounds)) < len(bounds):  # Too near each other for six digits.
            bounds = [repr(edge) for edge in self._edges]
        names = [f"[{low}, {high})" for low, high in pairwise(bounds)]
        first, last = bounds[:1] or ["0"], bounds[-1:] or ["0"]
        every = [f"below {first[0]}", *names, f"from {last[0]}"]
        self._bins = [counter.series(name) for name in every]

    def add(self, values: Any) -> None:
        """How these values are distributed now: one number or several."""
        if self._channel._put is None:
            return
        counts = [0] * len(self._bins)
        for number in quantities(values):
            if number == number:
                counts[bisect_right(self._edges, number)] += 1
        for series, count in zip(self._bins, counts, strict=True):
            series.add(count)


def channel(name: object, enabled: bool | None = None, *, always: bool = False) -> Channel:
    """The channel of this name: a source of events that can be switched on and off.

    Args:
        name: What the viewer calls it.
        enabled: Whether it records; when not given, as ``--trace-channels`` says.
        always: Record outside of the steps that were asked for too.
    """
    text = label_of(name)
    found = recorder.channels.get(text)
    if found is None:
        if len(recorder.channels) >= CHANNELS:
            text = OTHERS
        found = recorder.channels.setdefault(text, Channel(text, always))
        found.follow()  # The recorder did not know of it when it was made.
    if enabled is not None:
        found.enable() if enabled else found.disable()
    return found


def channels() -> list[Channel]:
    """Every channel there is, in the order in which they were made."""
    return list(recorder.channels.values())
