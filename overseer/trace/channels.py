"""Channels: the spans, instants, counters and histograms that a script or a voirfile records.

They go to the recorder's value ring. The first thousand labels of a channel have sites of their
own, which record in C. Other labels, and arguments, are written as a note before the event. Without
a trace every span is one null object, and sites are silent.
"""

from __future__ import annotations

import functools
import inspect
import json
import threading
from bisect import bisect_right
from fnmatch import fnmatchcase
from itertools import pairwise
from types import FunctionType, MethodType, ModuleType

from ..recorder import recorder, table
from ..recorder import sites as k
from ..recorder.choice import null_span
from ..recorder.encode import INT_BITS, SAMPLE_VALUES, simplify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import Any, Protocol, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

    class SpanLike(Protocol):
        """A span or the null span."""

        def __enter__(self) -> SpanLike: ...
        def __exit__(self, *error: Any) -> Any: ...
        def __call__(self, function: F, /) -> F:
            """Decorate ``function``: each call is a span."""


#: Maximum length of a label, of an argument and of all arguments of an event; and their count.
MAX_LABEL, MAX_ARGUMENT, MAX_EVENT_ARGUMENTS, MAX_ARGUMENTS = 200, 1000, 4000, 64
#: Labels of a channel with sites of their own, series of a counter, channels.
MAX_LABELS, MAX_SERIES, MAX_CHANNELS = 1000, 1000, 1000
#: The name shared by channels and series beyond the maximum.
OVERFLOW = "(others)"
#: The attribute of decorated functions that holds their label.
MARK = "__voir_label__"
_PLAIN = (int, float, bool, type(None), str)
_quoted = json.encoder.encode_basestring_ascii


# Values


def described(value: Any) -> Any:
    """Simplify ``value`` to a number or a short text; never raises, never waits for a device."""
    if type(value) not in _PLAIN or (type(value) is int and value.bit_length() > INT_BITS):
        value = simplify(value, SAMPLE_VALUES)
        if not isinstance(value, _PLAIN):
            value = json.dumps(value, ensure_ascii=False)
    return cut(value, MAX_ARGUMENT) if isinstance(value, str) else value


def label_of(value: object) -> str:
    """``value`` as a label."""
    return cut(value if isinstance(value, str) else str(described(value)), MAX_LABEL)


def cut(value: str, longest: int) -> str:
    """``value``, shortened to ``longest`` characters."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _numbers(values: Any) -> Iterator[float]:
    """Yield the numbers in a number, an array or another iterable, without NaN."""
    try:
        if hasattr(values, "tolist"):  # Ten times as fast as iterating over an array.
            flat = values.detach() if hasattr(values, "detach") else values
            values = flat.reshape(-1).tolist()
        elif isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
            values = (values,)
        for value in values:
            found = recorder.number(value)
            if found == found:
                yield found
    except Exception:  # A lost device, or a faulty __iter__.
        return


def _text(label: str, arguments: dict[str, Any]) -> bytes:
    """A note's text in JSON; arguments over the limits are replaced by their count."""
    shown: list[str] = []
    size = 0
    for key, value in arguments.items():
        text = _value(value)
        size += len(text) + len(key)
        if size > MAX_EVENT_ARGUMENTS or len(shown) == MAX_ARGUMENTS:
            shown.append(f'"...":"{len(arguments) - len(shown)} more"')
            break
        shown.append(f"{_quoted(key)}:{text}")
    return f"[{_quoted(label)},{{{','.join(shown)}}}]".encode("ascii")


def _value(value: Any) -> str:
    """A value in JSON; ``json.dumps`` takes ten times as long for a number or text."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return repr(value)
    found = described(value)
    return _quoted(found) if type(found) is str else json.dumps(found)


# Channels


class _ChannelState:
    """All channels, and whether they record: only while the run is traced."""

    def __init__(self) -> None:
        self.on = False
        self.patterns: tuple[str, ...] = ("*",)
        self.channels: dict[str, Channel] = {}
        self.opened: list[tuple[Channel, str, int, dict[str, Any]]] = []


_state, _local = _ChannelState(), threading.local()


def record(patterns: tuple[str, ...] = ("*",)) -> None:
    """Start recording the channels that match.

    Args:
        patterns: Shell-style patterns of channel names.
    """
    _state.on, _state.patterns = True, patterns
    for one in list(_state.channels.values()):
        one.enabled = wanted(one.name)
        one.follow()


def stop() -> None:
    """Stop recording; spans that :meth:`Channel.begin` has begun end here."""
    now, opened = recorder.now(), _state.opened
    _state.opened = []
    for channel_, label, start, arguments in opened:
        if channel_.recording:
            more = {**arguments, "unfinished": True}
            channel_.put(k.SPAN, start, now - start, _text(label, more))
    _state.on = False
    for one in list(_state.channels.values()):
        one.follow()


def wanted(name: str) -> bool:
    """Whether the channel ``name`` matches the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in _state.patterns)


class Channel:
    """A source of events that can be switched on and off; made by :func:`channel`.

    Attributes:
        name: Its name: the category of its events in the viewer.
        enabled: Whether it records while the run is traced.
        always: Whether it also records outside of the chosen steps.
        recording: Whether it records now, in any of the chosen steps.
    """

    __slots__ = ("_counters", "_instants", "_note", "_sites", "_spans", "always", "enabled",
                 "name", "recording")  # fmt: skip

    def __init__(self, name: str, always: bool = False) -> None:
        self.name, self.always = name, always
        self.enabled, self.recording = wanted(name), False
        self._sites: list[Any] = []
        self._spans: dict[str, Span] = {}
        self._instants: dict[str, Any] = {}
        self._counters: dict[str, Counter] = {}
        self._note = (0, 0, 0)
        self.follow()

    def __repr__(self) -> str:
        return f"Channel({self.name!r}, {'on' if self.enabled else 'off'})"

    def follow(self) -> None:
        """Switch the sites on or off."""
        self.recording = _state.on and self.enabled
        for site in self._sites:
            site.silent = not self.recording

    def enable(self) -> None:
        """Record while the run is traced."""
        self.enabled = True
        self.follow()

    def disable(self) -> None:
        """Record nothing until enabled again."""
        self.enabled = False
        self.follow()

    def site(self, kind: int, label: str, **more: Any) -> Any:
        """Make a site of this channel."""
        if self.always:
            more["always"] = True
        number = table.add(kind, label, channel=self.name, **more)
        site = recorder.Site(number, kind, k.VALUES)
        site.silent = not self.recording
        self._sites.append(site)
        return site

    def put(self, kind: int, start: int, ns: int, said: bytes, flags: int = 0) -> None:
        """Record a span or instant with a note: a label and arguments from :func:`_text`."""
        if not self._note[0]:
            numbers = [self.site(each, "").number for each in (k.NOTE, k.SPAN, k.INSTANT)]
            self._note = numbers[0], numbers[1], numbers[2]
        recorder.note(k.NOTE, self._note[0], start, said)
        recorder.put(k.VALUES, kind, self._note[1 + (kind == k.INSTANT)], start, ns, 0.0, 0, flags)

    def span(self, label: object, /, **arguments: Any) -> SpanLike:
        """A context manager or decorator that records its time under ``label``; spans nest."""
        if not self.recording:
            return null_span  # type: ignore[no-any-return]
        text = label if type(label) is str and len(label) <= MAX_LABEL else label_of(label)
        if arguments:
            return AnnotatedSpan(self, text, arguments)
        found = self._spans.get(text)
        if found is None:
            if len(self._spans) >= MAX_LABELS:
                return AnnotatedSpan(self, text, arguments)
            found = self._spans.setdefault(text, Span(self, text))
        return found

    def begin(self, label: object, /, **arguments: Any) -> None:
        """Begin a span on this thread; :meth:`end` with the same label ends it."""
        if self.recording:
            try:
                opened = _local.opened
            except AttributeError:
                opened = _local.opened = []
            one = self, label_of(label), recorder.now(), arguments
            opened.append(one)
            _state.opened.append(one)

    def end(self, label: object = None, /) -> None:
        """End this thread's innermost span of this label, or of any, and those within it."""
        opened, now = getattr(_local, "opened", None), recorder.now()
        text = None if label is None else label_of(label)
        fits = (at for at, one in enumerate(opened or ()) if text is None or one[1] == text)
        last = max(fits, default=None)
        while opened and last is not None and len(opened) > last:
            one = opened.pop()
            if one in _state.opened:
                _state.opened.remove(one)
                channel, name, start, arguments = one
                channel.put(k.SPAN, start, now - start, _text(name, arguments))

    def instant(self, label: object, /, **arguments: Any) -> None:
        """Mark this moment on this thread."""
        if not self.recording:
            return
        text = label if type(label) is str and len(label) <= MAX_LABEL else label_of(label)
        site = self._instants.get(text)
        if arguments or (site is None and len(self._instants) >= MAX_LABELS):
            self.put(k.INSTANT, recorder.now(), 0, _text(text, arguments))
            return
        if site is None:
            site = self._instants.setdefault(text, self.site(k.INSTANT, text))
        site.mark()

    def counter(self, name: object, unit: str = "") -> Counter:
        """A graph of numbers over time; one counter for each name."""
        text = label_of(name)
        found = self._counters.get(text)
        if found is None:
            if len(self._counters) >= MAX_SERIES:
                text = OVERFLOW
            found = self._counters.setdefault(text, Counter(self, text, label_of(unit)))
        return found

    def histogram(self, name: object, edges: Iterable[float], unit: str = "") -> Histogram:
        """Distributions of values over time: a count for each bin between two edges."""
        return Histogram(self.counter(name, unit), edges)

    def instrument(self, target: Any, methods: str | Iterable[str]) -> None:
        """Record a span for each call of these methods of ``target``: an object, class or module.

        Does nothing unless the channel records. Methods that cannot be instrumented are left
        unchanged, and an instant names each.
        """
        if not self.recording:
            return
        owner = target if isinstance(target, type | ModuleType) else type(target)
        for name in [methods] if isinstance(methods, str) else methods or ():
            label = label_of(f"{owner.__name__}.{name}")
            try:
                setattr(target, name, _replaced(target, name, label, self.span(label)))
            except Exception as error:  # A class may raise any error.
                why = f"{type(error).__name__}: {error}"
                self.instant(f"not instrumented: {label}", error=why)


class Span:
    """Records the time between entering and leaving it, on any thread, any number of times.

    Args:
        channel: The channel.
        label: The label.
    """

    __slots__ = ("_enter", "_leave", "channel", "label")

    def __init__(self, channel: Channel, label: str) -> None:
        site, self.label, self.channel = channel.site(k.SPAN, label), label, channel
        self._enter, self._leave = site.__enter__, site.__exit__

    def __enter__(self) -> Span:
        self._enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self._leave(*error)

    def __call__(self, function: F, /) -> F:
        """Record a span for each call of ``function``."""
        try:
            return around(function, self.label, self)  # type: ignore[no-any-return]
        except TypeError as error:
            self.channel.instant(f"not instrumented: {self.label}", error=str(error))
            return function


class AnnotatedSpan(Span):
    """A span with arguments, or with a label without a site of its own."""

    __slots__ = ("_said", "_starts")

    def __init__(self, channel: Channel, label: str, arguments: dict[str, Any]) -> None:
        self.channel, self.label = channel, label
        self._said = _text(label, arguments)
        self._starts: list[tuple[int, int]] = []

    def __enter__(self) -> AnnotatedSpan:
        self._starts.append((threading.get_ident(), recorder.now()))
        return self

    def __exit__(self, *error: Any) -> None:
        now, me, starts = recorder.now(), threading.get_ident(), self._starts
        at = len(starts) - 1
        while at >= 0 and starts[at][0] != me:
            at -= 1
        if at < 0:
            return
        _, start = starts.pop(at)
        if not self.channel.recording:
            return
        said, failed = self._said, bool(error) and error[0] is not None
        if failed:
            comma = "" if said.endswith(b"{}]") else ","
            said = said[:-2] + f'{comma}"error":{_quoted(error[0].__name__)}}}]'.encode("ascii")
        self.channel.put(k.SPAN, start, now - start, said, failed * k.FAILED)


class Series:
    """One line of a counter's graph.

    Attributes:
        add: Records the present value; a scalar on a device is read later, on another thread.
    """

    __slots__ = ("add", "channel", "name", "unit")

    def __init__(self, channel: Channel, name: str, unit: str, group: str) -> None:
        self.channel, self.name, self.unit = channel, name, unit
        site = channel.site(k.VALUE, name, unit=unit, group=group)
        self.add: Callable[[Any], None] = site.value


class Counter(Series):
    """A graph: one line, and further ones by :meth:`series`."""

    __slots__ = ("_group", "_series")

    def __init__(self, channel: Channel, name: str, unit: str) -> None:
        self._group = f"{channel.name}/{name}"
        super().__init__(channel, name, unit, self._group)
        self._series: dict[str, Series] = {}

    def series(self, name: object) -> Series:
        """Another line of the graph; one for each name."""
        text = label_of(name)
        if text not in self._series and len(self._series) >= MAX_SERIES:
            text = OVERFLOW
        if text not in self._series:
            made = Series(self.channel, f"{self.name}: {text}", self.unit, self._group)
            self._series.setdefault(text, made)
        return self._series[text]


class Histogram:
    """Counts of values by bin, over time; one line for each bin.

    Args:
        counter: The counter of these lines.
        edges: The edges between bins.
    """

    __slots__ = ("_bins", "_channel", "_edges")

    def __init__(self, counter: Counter, edges: Iterable[float]) -> None:
        self._channel = counter.channel
        known = {float(edge) for edge in edges}
        self._edges = sorted(edge for edge in known if edge == edge)[: MAX_SERIES - 2]
        bounds = [f"{edge:.15g}" for edge in self._edges]
        names = [f"[{low}, {high})" for low, high in pairwise(bounds)]
        first, last = bounds[:1] or ["0"], bounds[-1:] or ["0"]
        every = [f"below {first[0]}", *names, f"from {last[0]}"]
        self._bins = [counter.series(name) for name in every]

    def add(self, values: Any) -> None:
        """Record the distribution of these values: a number, an array, an iterable."""
        if not self._channel.recording:
            return
        counts = [0] * len(self._bins)
        for number in _numbers(values):
            counts[bisect_right(self._edges, number)] += 1
        for series, count in zip(self._bins, counts, strict=True):
            series.add(count)


def channel(name: object, enabled: bool | None = None, *, always: bool = False) -> Channel:
    """The channel of this name: a source of events that can be switched on and off.

    Args:
        name: Its name in the viewer.
        enabled: Whether it records; by default ``--trace-channels`` decides.
        always: Also record outside of the chosen steps.
    """
    text, known = label_of(name), _state.channels
    if text not in known and len(known) >= MAX_CHANNELS:
        text = OVERFLOW
    found = known.get(text) or known.setdefault(text, Channel(text, always))
    if enabled is not None:
        found.enable() if enabled else found.disable()
    return found


def channels() -> list[Channel]:
    """All channels, in order of creation."""
    return list(_state.channels.values())


# Spans around functions and methods, which keep their kind


def around(function: Any, label: str, span: SpanLike) -> Any:
    """Wrap ``function`` in a span for each call; a generator, for each of its turns.

    Coroutine and generator functions stay what they are. A class is returned itself, with its
    ``__init__`` wrapped.

    Raises:
        TypeError: ``function`` is an async generator.
    """
    if isinstance(function, type):
        function.__init__ = _replaced(function, "__init__", label, span)  # type: ignore[misc]
        return function
    if getattr(function, MARK, None) == label:
        return function
    if inspect.isasyncgenfunction(function):
        raise TypeError("it is an async generator: put spans inside it")
    traced = _traced(function, span)
    functools.update_wrapper(traced, function)
    setattr(traced, MARK, label)
    return traced


def _traced(function: Any, span: SpanLike) -> Any:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with span:
            return await function(*args, **kwargs)

    def generated(*args: Any, **kwargs: Any) -> Any:
        return (yield from _turns(function(*args, **kwargs), span))

    def called(*args: Any, **kwargs: Any) -> Any:
        with span:
            return function(*args, **kwargs)

    if inspect.iscoroutinefunction(function):
        return awaited
    return generated if inspect.isgeneratorfunction(function) else called


def _turns(inner: Any, span: SpanLike) -> Generator[Any, Any, Any]:
    turn, given = inner.send, None
    while True:
        with span:
            try:
                value = turn(given)
            except StopIteration as ended:
                return ended.value
        try:
            given = yield value
            turn = inner.send
        except GeneratorExit:
            with span:
                inner.close()
            raise
        except BaseException as error:  # Thrown into the generator, as without the span.
            turn, given = inner.throw, error


def _replaced(target: Any, name: str, label: str, span: SpanLike) -> Any:
    """The replacement of ``target.name``, an object of the same kind.

    Raises:
        Exception: It cannot be replaced.
    """
    if isinstance(target, ModuleType):
        return around(_callable(getattr(target, name)), label, span)
    raw: Any = inspect.getattr_static(target, name)
    if isinstance(raw, property | functools.cached_property):
        raise TypeError("it is a property: put a span inside it")
    if isinstance(target, type):
        if isinstance(raw, staticmethod | classmethod):
            return type(raw)(around(raw.__func__, label, span))
        return around(_callable(raw), label, span)
    if name.startswith("__") and name.endswith("__"):
        raise TypeError(f"Python looks up {name} in the class: instrument the class")
    if isinstance(raw, FunctionType) and name not in getattr(target, "__dict__", {}):
        return MethodType(around(raw, label, span), target)  # Not inherited by copies of it.
    found = getattr(target, name)
    if isinstance(found, MethodType) and found.__self__ is target:
        return MethodType(around(found.__func__, label, span), target)
    return around(_callable(found), label, span)


def _callable(found: Any) -> Any:
    if callable(found):
        return found
    raise TypeError(f"it is not callable: {type(found).__name__}")


# torch.compile breaks the graph at these calls, instead of warning about them.
for _method in (
    *(Span.__enter__, Span.__exit__, AnnotatedSpan.__enter__, AnnotatedSpan.__exit__),
    *(Channel.begin, Channel.end, Channel.instant),
):
    vars(_method)["_torchdynamo_disable"] = True
