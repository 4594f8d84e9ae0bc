"""What a script or a voirfile records with: channels, spans, instants, counters, histograms.

All of it goes to the recorder's value ring. A span or instant of a known label is recorded in C by
a site of its own; arguments, and labels beyond the first thousand of a channel, are a note before
the event. While nothing is traced a span is one object that does nothing, and sites are silent.
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
        """A span, or what stands in for one."""

        def __enter__(self) -> SpanLike: ...
        def __exit__(self, *error: Any) -> Any: ...
        def __call__(self, function: F, /) -> F:
            """Do the same to each call of ``function``."""


#: The longest label, argument, and all arguments of one event; how many arguments.
MAX_LABEL, MAX_ARGUMENT, MAX_EVENT_ARGUMENTS, MAX_ARGUMENTS = 200, 1000, 4000, 64
#: How many labels of a channel have sites of their own, how many series a counter has, and how many
#: channels there are.
MAX_LABELS, MAX_SERIES, MAX_CHANNELS = 1000, 1000, 1000
#: The name of whoever makes up too many.
OVERFLOW = "(others)"
#: Marks functions that record, with the label by which they do.
MARK = "__voir_label__"
_PLAIN = (int, float, bool, type(None), str)
_quoted = json.encoder.encode_basestring_ascii


# Values of any kind as what a trace can hold


def described(value: Any) -> Any:
    """A number or a short text for ``value``; it never raises, and waits for no device."""
    if type(value) not in _PLAIN or (type(value) is int and value.bit_length() > INT_BITS):
        value = simplify(value, SAMPLE_VALUES)
        if not isinstance(value, _PLAIN):
            value = json.dumps(value, ensure_ascii=False)
    return cut(value, MAX_ARGUMENT) if isinstance(value, str) else value


def label_of(value: object) -> str:
    """``value`` as a label."""
    return cut(value if isinstance(value, str) else str(described(value)), MAX_LABEL)


def cut(value: str, longest: int) -> str:
    """``value``, or its beginning when it is longer."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _numbers(values: Any) -> Iterator[float]:
    """The numbers in a number, an array or another iterable; what is no number is left out."""
    try:
        if hasattr(values, "tolist"):  # At once, for one by one an array takes ten times as long.
            flat = values.detach() if hasattr(values, "detach") else values
            values = flat.reshape(-1).tolist()
        elif isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
            values = (values,)
        for value in values:
            found = recorder.number(value)
            if found == found:
                yield found
    except Exception:  # A device that is lost, or somebody's __iter__.
        return


def _text(label: str, arguments: dict[str, Any]) -> bytes:
    """A note's text, in JSON; arguments that are too many or too long are counted."""
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
    """A value in JSON; for one number or text json's own encoder takes ten times as long."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return repr(value)
    found = described(value)
    return _quoted(found) if type(found) is str else json.dumps(found)


# Channels


class _ChannelState:
    """What is recorded: nothing, unless a trace is kept of the run."""

    def __init__(self) -> None:
        self.on = False
        self.patterns: tuple[str, ...] = ("*",)
        self.channels: dict[str, Channel] = {}
        self.opened: list[tuple[Channel, str, int, dict[str, Any]]] = []


_state, _local = _ChannelState(), threading.local()


def record(patterns: tuple[str, ...] = ("*",)) -> None:
    """Record what channels of such names are given.

    Args:
        patterns: Of names, as a shell has them.
    """
    _state.on, _state.patterns = True, patterns
    for one in list(_state.channels.values()):
        one.enabled = wanted(one.name)
        one.follow()


def stop() -> None:
    """Record nothing any more; spans that :meth:`Channel.begin` has begun end here."""
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
    """Whether a trace is to have the channel ``name``."""
    return any(fnmatchcase(name, pattern) for pattern in _state.patterns)


class Channel:
    """A source of events that can be switched on and off; made by :func:`channel`.

    Attributes:
        name: What the viewer calls it: the events' category.
        enabled: Whether it records while a trace is kept.
        always: Whether it records outside of the steps that were asked for too.
        recording: Whether what is recorded now gets into a trace, the window of steps left aside.
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
        """Have the sites record, or be silent, as is wanted now."""
        self.recording = _state.on and self.enabled
        for site in self._sites:
            site.silent = not self.recording

    def enable(self) -> None:
        """Record while a trace is kept."""
        self.enabled = True
        self.follow()

    def disable(self) -> None:
        """Record nothing until enabled again."""
        self.enabled = False
        self.follow()

    def site(self, kind: int, label: str, **more: Any) -> Any:
        """A new site of this channel."""
        if self.always:
            more["always"] = True
        number = table.add(kind, label, channel=self.name, **more)
        site = recorder.Site(number, kind, k.VALUES)
        site.silent = not self.recording
        self._sites.append(site)
        return site

    def put(self, kind: int, start: int, ns: int, said: bytes, flags: int = 0) -> None:
        """Record a span or instant with a label and arguments of its own, as :func:`_text`."""
        if not self._note[0]:
            numbers = [self.site(each, "").number for each in (k.NOTE, k.SPAN, k.INSTANT)]
            self._note = numbers[0], numbers[1], numbers[2]
        recorder.note(k.NOTE, self._note[0], start, said)
        recorder.put(k.VALUES, kind, self._note[1 + (kind == k.INSTANT)], start, ns, 0.0, 0, flags)

    def span(self, label: object, /, **arguments: Any) -> SpanLike:
        """A context manager, or decorator, whose time is shown under ``label``; they nest."""
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
        """End the innermost span of this label on this thread, and those within; any without."""
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
        """A graph of numbers over time; the same one for the same name."""
        text = label_of(name)
        found = self._counters.get(text)
        if found is None:
            if len(self._counters) >= MAX_SERIES:
                text = OVERFLOW
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
        if not self.recording:
            return
        owner = target if isinstance(target, type | ModuleType) else type(target)
        for name in [methods] if isinstance(methods, str) else methods or ():
            label = label_of(f"{owner.__name__}.{name}")
            try:
                setattr(target, name, _replaced(target, name, label, self.span(label)))
            except Exception as error:  # A class may refuse for any reason.
                why = f"{type(error).__name__}: {error}"
                self.instant(f"not instrumented: {label}", error=why)


class Span:
    """A stretch of time on the thread that enters it; as often as it is entered.

    Args:
        channel: Whose it is.
        label: What it is called.
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
    """A span with arguments, or a label that has no site of its own."""

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
        add: Takes the value from now on; a scalar on a device is read later, off this thread.
    """

    __slots__ = ("add", "channel", "name", "unit")

    def __init__(self, channel: Channel, name: str, unit: str, group: str) -> None:
        self.channel, self.name, self.unit = channel, name, unit
        site = channel.site(k.VALUE, name, unit=unit, group=group)
        self.add: Callable[[Any], None] = site.value


class Counter(Series):
    """A graph: a line of its own, and others in the same picture by :meth:`series`."""

    __slots__ = ("_group", "_series")

    def __init__(self, channel: Channel, name: str, unit: str) -> None:
        self._group = f"{channel.name}/{name}"
        super().__init__(channel, name, unit, self._group)
        self._series: dict[str, Series] = {}

    def series(self, name: object) -> Series:
        """Another line of the graph; the same one for the same name."""
        text = label_of(name)
        if text not in self._series and len(self._series) >= MAX_SERIES:
            text = OVERFLOW
        if text not in self._series:
            made = Series(self.channel, f"{self.name}: {text}", self.unit, self._group)
            self._series.setdefault(text, made)
        return self._series[text]


class Histogram:
    """Counts of values between edges, over time; one line for each bin.

    Args:
        counter: Whose lines they are.
        edges: Between bins.
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
        """How these values are distributed now: one number or several."""
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
        name: What the viewer calls it.
        enabled: Whether it records; when not given, as ``--trace-channels`` says.
        always: Record outside of the steps that were asked for too.
    """
    text, known = label_of(name), _state.channels
    if text not in known and len(known) >= MAX_CHANNELS:
        text = OVERFLOW
    found = known.get(text) or known.setdefault(text, Channel(text, always))
    if enabled is not None:
        found.enable() if enabled else found.disable()
    return found


def channels() -> list[Channel]:
    """Every channel there is, in the order in which they were made."""
    return list(_state.channels.values())


# Spans around functions and methods, which stay what they are


def around(function: Any, label: str, span: SpanLike) -> Any:
    """``function`` with a span around each call; of a generator, around each of its turns.

    A coroutine function stays one, a generator function too; of a class, the making of its objects
    is recorded, and it stays the class it is.

    Raises:
        TypeError: It is an async generator.
    """
    if isinstance(function, type):
        function.__init__ = _replaced(function, "__init__", label, span)  # type: ignore[misc]
        return function
    if getattr(function, MARK, None) == label:
        return function
    if inspect.isasyncgenfunction(function):
        raise TypeError("it is an async generator: put spans into it")
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
        except BaseException as error:  # The generator's to deal with.
            turn, given = inner.throw, error


def _replaced(target: Any, name: str, label: str, span: SpanLike) -> Any:
    """What takes the place of ``target.name``: the same kind of thing.

    Raises:
        Exception: That cannot be.
    """
    if isinstance(target, ModuleType):
        return around(_callable(getattr(target, name)), label, span)
    raw: Any = inspect.getattr_static(target, name)
    if isinstance(raw, property | functools.cached_property):
        raise TypeError("it is a property: put a span into it")
    if isinstance(target, type):
        if isinstance(raw, staticmethod | classmethod):
            return type(raw)(around(raw.__func__, label, span))
        return around(_callable(raw), label, span)
    if name.startswith("__") and name.endswith("__"):
        raise TypeError(f"python looks {name} up in the class: instrument that")
    if isinstance(raw, FunctionType) and name not in getattr(target, "__dict__", {}):
        return MethodType(around(raw, label, span), target)  # A copy of the object has its own.
    found = getattr(target, name)
    if isinstance(found, MethodType) and found.__self__ is target:
        return MethodType(around(found.__func__, label, span), target)
    return around(_callable(found), label, span)


def _callable(found: Any) -> Any:
    if callable(found):
        return found
    raise TypeError(f"it is no method: {type(found).__name__}")


# What torch.compile compiles breaks off at these, instead of warning of what it does not know.
for _method in (
    *(Span.__enter__, Span.__exit__, AnnotatedSpan.__enter__, AnnotatedSpan.__exit__),
    *(Channel.begin, Channel.end, Channel.instant),
):
    vars(_method)["_torchdynamo_disable"] = True
