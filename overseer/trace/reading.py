"""Reads traces: processes, threads, nested spans, counters, and figures of them."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import VoirError
from ..files import is_own, read
from .wire import Malformed, as_bytes, as_double, as_number, as_text, fields, read_varint
from .writer import TRACE_NAME, elsewhere, logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .wire import Value

    Fields = list[tuple[int, Value]]

#: Trace.packet as bytes: every packet begins with it.
_PACKET = 0x0A
#: Fields of TracePacket, and TrackEvent types.
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
#: The field of compressed packets, and their maximum size when unpacked, in bytes.
_COMPRESSED, _LARGEST = 50, 1 << 28
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
#: The bits of a process or thread id; those above hold the rank.
_PIDS = (1 << 22) - 1


@dataclass
class Slice:
    """A span, or an instant.

    Attributes:
        label: Its name.
        channel: The channel that recorded it.
        start: Nanoseconds since the epoch.
        duration: Nanoseconds; ``None`` without an end in the trace.
        args: Arguments recorded with it.
        children: The spans within it.
    """

    label: str
    channel: str
    start: int
    duration: int | None = None
    args: dict[str, object] = field(default_factory=dict)
    children: list[Slice] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[int, Slice]]:
        """Yield the span and all within it, each with its depth."""
        waiting = [(0, self)]
        while waiting:  # No recursion: spans may nest 500 deep.
            level, one = waiting.pop()
            yield level, one
            waiting.extend((level + 1, child) for child in reversed(one.children))


@dataclass
class Thread:
    """A row of the timeline: a thread, or another row of a process.

    Attributes:
        name: The label of the row.
        tid: The thread's native id; ``None`` for other rows.
        slices: The outermost spans.
        instants: The instants, in order.
    """

    name: str
    tid: int | None = None
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[int, Slice]]:
        """Yield every span with its depth."""
        for one in self.slices:
            yield from one.walk()


@dataclass
class CounterTrack:
    """A number over time.

    Attributes:
        name: Its name.
        unit: The unit of its values; may be empty.
        samples: Pairs of a time, in nanoseconds since the epoch, and the value from then on.
    """

    name: str
    unit: str = ""
    samples: list[tuple[int, float]] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """The values, in order."""
        return [value for _, value in self.samples]


@dataclass
class ProcessTracks:
    """One process.

    Attributes:
        threads: Its threads and other rows.
        counters: By name.
    """

    name: str
    pid: int | None = None
    threads: list[Thread] = field(default_factory=list)
    counters: dict[str, CounterTrack] = field(default_factory=dict)


@dataclass
class Trace:
    """The readable part of a trace file.

    Attributes:
        path: The file.
        processes: The processes in it.
        events: Count of begins, ends, instants and values.
        torn_bytes: Count of bytes that could not be read.
        tail_bytes: Count of those that are an incomplete packet at the end.
        broken_packets: Count of malformed packets.
        unfinished: Count of spans without an end.
        dropped: Count of events that the writer left out.
        anchors: The process that wrote it, its host, and one moment by both of its clocks.
        hosts: Count of machines.
        notes: Of a job: how its machines' clocks are aligned, and what is left out, in lines.
    """

    path: Path
    processes: list[ProcessTracks] = field(default_factory=list)
    events: int = 0
    torn_bytes: int = 0
    tail_bytes: int = 0
    broken_packets: int = 0
    unfinished: int = 0
    dropped: int = 0
    anchors: dict[str, object] = field(default_factory=dict)
    hosts: int = 1
    notes: list[str] = field(default_factory=list)

    @property
    def threads(self) -> list[Thread]:
        """The rows of all processes."""
        return [thread for process in self.processes for thread in process.threads]

    @property
    def counters(self) -> dict[str, CounterTrack]:
        """The counters of all processes by name; the first one of each name."""
        found: dict[str, CounterTrack] = {}
        for process in self.processes:
            for name, counter in process.counters.items():
                found.setdefault(name, counter)
        return found

    def slices(self) -> Iterator[Slice]:
        """Yield every span, inner ones included."""
        for thread in self.threads:
            for _, one in thread.walk():
                yield one

    def instants(self) -> Iterator[Slice]:
        """Yield every instant."""
        for thread in self.threads:
            yield from thread.instants


# Which file


_OURS = "voir reads the .pftrace files that voir --trace writes."
_ANY = "Open it at https://ui.perfetto.dev; " + _OURS


def _other_kind(data: bytes) -> tuple[str, str]:
    """Describe a file that is not a trace, and the remedy."""
    if data[:4096].lstrip().startswith((b"{", b"[")):
        chrome = b'"traceEvents"' in data or b'"ph"' in data
        return (": it is a Chrome trace, in JSON", _ANY) if chrome else (": it is JSON", _OURS)
    return "", _OURS


#: Maximum size of a trace that is read.
MAX_TRACE_BYTES = 1 << 32


def trace_file(path: str | os.PathLike[str]) -> Path:
    """The trace that ``path`` names: the file, or the one in a run directory.

    Raises:
        VoirError: There is none, or a job's directory has several.
    """
    found = trace_files(path)
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.parent.name for each in found[:5])
    raise VoirError("no-trace", f"{path} has traces of several ranks", f"Name one: {names}.")


def trace_files(path: str | os.PathLike[str]) -> list[Path]:
    """The traces that ``path`` names: the file, a log's trace, or those of a job's ranks.

    Raises:
        VoirError: There is none, or only a log.
    """
    given = Path(path)
    if given.suffix == ".log":
        given = given.with_suffix(".pftrace")
    if given.is_dir():
        found = [given / TRACE_NAME] if (given / TRACE_NAME).is_file() else by_rank(given)
        found = found or [one for one in elsewhere(given) if one.is_file()][:1]
    else:
        found = [given] if given.is_file() else []
    if found:
        return found
    raise VoirError("no-trace", *_absent(given))


def _absent(given: Path) -> tuple[str, str]:
    """Explain why there is no trace at ``given``, and the remedy."""
    record = "Record one: voir --trace SCRIPT"
    for place in (given / TRACE_NAME, given):
        if os.path.lexists(place) and not place.is_dir():
            return f"{place} is not a regular file", record
    log = next(iter(logs(given) if given.is_dir() else ()), given.with_suffix(".log"))
    if log.is_file() and not is_own(log.parent):
        return f"{log} belongs to another user", "Copy the run, and export the copy's trace."
    if log.is_file():
        return f"{log} has not been exported to a trace", f"Write it: voir trace export {given}"
    if not given.is_dir():
        return f"there is no trace at {given}", record
    named = sorted(path.name for path in given.glob("*.pftrace") if path.name != TRACE_NAME)
    has = f"; it has {', '.join(named[:5])}" if named else ""
    return f"the directory {given} has no {TRACE_NAME}{has}", record


def by_rank(directory: Path) -> list[Path]:
    """The traces of a job's ranks, in order; those of its latest attempt that has some."""
    tried = [one for one in directory.glob("attempt*") if one.name[7:].isdecimal()]
    for attempt in sorted(tried, key=lambda one: int(one.name[7:]), reverse=True):
        if found := by_rank(attempt):
            return found
    every = directory.glob(f"rank*/{TRACE_NAME}")
    found = [each for each in every if each.parent.name[4:].isdecimal()]
    return sorted(found, key=lambda each: int(each.parent.name[4:]))


def rank_of(trace: Trace) -> int:
    """The rank of the process that wrote a trace."""
    known = trace.anchors.get("rank")
    if isinstance(known, int):
        return known
    name = trace.path.resolve().parent.name
    return int(name[4:]) if name.startswith("rank") and name[4:].isdecimal() else 0


# Reading


def read_trace(file: Path) -> Trace:
    """Read one file.

    Raises:
        VoirError: The file cannot be read, or is not a Perfetto trace.
    """
    try:
        data = read(file, MAX_TRACE_BYTES)
    except OSError as error:
        what = f"{file} cannot be read: {error.strerror or error}"
        raise VoirError("no-trace", what, "Look at its permissions.") from None
    trace = Trace(file)
    assembly = _Assembly(trace)
    for packet in _packets(data, trace):
        try:
            assembly.add(packet)
        except Malformed:
            trace.broken_packets += 1
    if data.strip(b"\0") and not assembly.understood and trace.tail_bytes < len(data):
        kind, remedy = _other_kind(data)
        raise VoirError("not-a-trace", f"{file} is not a Perfetto trace{kind}", remedy)
    assembly.finish()
    return trace


def whole_packets(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each packet's contents, up to the first incomplete one.

    Args:
        data: A file's bytes.
    """
    at = 0
    while at < len(data) and data[at] == _PACKET:
        try:
            size, start = read_varint(data, at + 1)
        except Malformed:
            return
        if start + size > len(data):
            return
        at = start + size
        yield start, at


def _packets(data: bytes, trace: Trace) -> Iterator[Fields]:
    """Yield the fields of each packet; ``trace`` counts what cannot be read."""
    end, view = 0, memoryview(data)
    for start, end in whole_packets(data):
        try:
            found = list(fields(view[start:end]))
        except Malformed:
            trace.broken_packets += 1
            continue
        packed = dict(found).get(_COMPRESSED)
        if not isinstance(packed, bytes):
            yield found
            continue
        with suppress(zlib.error):  # Version 0.1.0 compressed packets.
            unpacked = zlib.decompressobj().decompress(packed, _LARGEST)
            yield from _packets(unpacked, Trace(trace.path))
    rest = data[end:]
    trace.torn_bytes = len(rest)
    if rest[:1] == b"\n" or not rest.strip(b"\0"):
        trace.tail_bytes = len(rest)


class _Track:
    """A track: its description, and its events in the file's order."""

    def __init__(self) -> None:
        self.parent = 0
        self.name = self.unit = ""
        self.pid = self.tid = None  # type: int | None
        self.is_process = self.is_counter = False
        self.events: list[tuple[int, int, Slice]] = []
        self.samples: list[tuple[int, float]] = []


class _Assembly:
    """Builds a trace from packets in the file's order."""

    def __init__(self, trace: Trace) -> None:
        self.understood = 0
        self._trace = trace
        self._rows: dict[int, _Track] = {}
        self._names: dict[int, dict[tuple[int, int], str]] = {}

    def add(self, packet: Fields) -> None:
        """Read the next packet.

        Raises:
            Malformed: Its contents are not a TracePacket.
        """
        found = dict(packet)
        names = self._names.setdefault(as_number(found.get(_SEQUENCE, 0)), {})
        if as_number(found.get(_FLAGS, 0)) & 1:
            names.clear()
        if _DESCRIPTOR in found:
            self._describe(as_bytes(found[_DESCRIPTOR]))
        if _INTERNED in found:
            for kind, entry in fields(as_bytes(found[_INTERNED])):
                inner = dict(fields(as_bytes(entry)))
                names[kind, as_number(inner.get(1, 0))] = as_text(inner.get(2, b""))
        if _EVENT in found:
            self._event(as_number(found.get(_TIMESTAMP, 0)), as_bytes(found[_EVENT]), names)
        self.understood += bool({_FLAGS, _DESCRIPTOR, _INTERNED, _EVENT} & found.keys())

    def _describe(self, data: bytes) -> None:
        found: dict[int, Value] = dict(fields(data))
        row = self._rows.setdefault(as_number(found.get(1, 0)), _Track())
        row.parent = as_number(found.get(5, row.parent))
        row.name = as_text(found.get(2, row.name.encode())).lstrip(" ")
        for kind, name in ((3, 6), (4, 5)):
            if kind in found:
                inner = dict(fields(as_bytes(found[kind])))
                row.pid, row.is_process = as_number(inner.get(1, 0)), kind == 3
                row.tid = as_number(inner.get(2, 0)) & _PIDS if kind == 4 else None
                row.name = as_text(inner.get(name, b"")) or row.name
        if 8 in found:
            row.is_counter = True
            row.unit = as_text(dict(fields(as_bytes(found[8]))).get(6, b""))

    def _event(self, time: int, data: bytes, names: dict[tuple[int, int], str]) -> None:
        every = list(fields(data))
        found = dict(every)
        kind, track = as_number(found.get(9, 0)), as_number(found.get(11, 0))
        label, channel = _string(found, 23, 10, names, 2), _string(found, 22, 3, names, 1)
        one = Slice(label, channel, time)
        for number, value in every:
            if number == 4:
                _annotate(one.args, as_bytes(value), names)
        row, trace = self._rows.setdefault(track, _Track()), self._trace
        if kind == _COUNTER:
            row.samples.append((time, as_double(found.get(44, b""))))
            trace.events += 1
        elif kind in (_BEGIN, _END, _INSTANT):
            row.events.append((time, kind, one))
            dropped = one.args.get("dropped")
            if one.channel == "voir" and isinstance(dropped, int):
                trace.dropped = max(trace.dropped, dropped)
            elif one.channel == "voir" and one.label == "clocks":
                trace.anchors = trace.anchors or one.args
            else:
                trace.events += 1

    def finish(self) -> None:
        """Nest the spans, after the last packet."""
        processes: dict[int, ProcessTracks] = {}
        for number, row in self._rows.items():
            process = self._process(row, processes)
            if row.is_counter or row.samples:
                name = row.name or f"counter {number}"
                counter = process.counters.setdefault(name, CounterTrack(name, row.unit))
                counter.samples = sorted([*counter.samples, *row.samples])
            elif row.events:
                thread = Thread(row.name or f"track {number}", row.tid)
                self._trace.unfinished += _matched(thread, row.events)
                process.threads.append(thread)
        self._trace.processes = [
            one for one in processes.values() if one.threads or one.counters or one.pid
        ]

    def _process(self, row: _Track, processes: dict[int, ProcessTracks]) -> ProcessTracks:
        """The process of a track, by its own description or its parent's."""
        owner = row if row.is_process or row.pid else self._rows.get(row.parent)
        pid = owner.pid if owner is not None and owner.pid else 0
        found = processes.setdefault(pid, ProcessTracks("", pid & _PIDS or None))
        if owner is not None and owner.is_process:
            found.name = found.name or owner.name
        return found


def _string(
    found: dict[int, Value], plain: int, interned: int, names: dict[tuple[int, int], str], of: int
) -> str:
    """A message's string: interned, or inline as version 0.1.0 wrote them."""
    if plain in found:
        return as_text(found[plain])
    number = found.get(interned)
    return "" if number is None else names.get((of, as_number(number)), f"name {number!r}")


def _annotate(args: dict[str, object], data: bytes, names: dict[tuple[int, int], str]) -> None:
    found = dict(fields(data))
    value: object = None
    for number, data_ in found.items():
        if number == 2:
            value = bool(data_)
        elif number == 4:
            value = as_number(data_, signed=True)
        elif number == 5:
            value = as_double(data_)
        elif number == 6:
            value = as_text(data_)
    args[_string(found, 10, 1, names, 3)] = value


def _matched(thread: Thread, events: list[tuple[int, int, Slice]]) -> int:
    """Nest a track's events in ``thread``; return the count of spans without an end."""
    stack: list[Slice] = []
    for time, kind, one in sorted(events, key=lambda event: event[0]):
        if kind == _INSTANT:
            one.duration = 0
            thread.instants.append(one)
        elif kind == _BEGIN:
            (stack[-1].children if stack else thread.slices).append(one)
            stack.append(one)
        elif stack:
            ended = stack.pop()
            ended.duration = max(time - ended.start, 0)
            ended.args.update(one.args)
    return len(stack)


# Figures


@dataclass(frozen=True)
class LabelFigures:
    """Figures of one label's spans, in nanoseconds; spans without an end are left out.

    Attributes:
        unfinished: Count of spans without an end; ``count`` does not include them.
    """

    label: str
    channel: str
    count: int
    total: int
    min: int
    mean: float
    p95: int
    max: int
    unfinished: int = 0


@dataclass
class Node:
    """Spans of one label at one place in the call tree.

    Attributes:
        count: Count of spans that have ended.
        total: Their time, in nanoseconds.
        unfinished: Count of spans without an end.
    """

    label: str
    count: int = 0
    total: int = 0
    unfinished: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def by_label(trace: Trace) -> list[LabelFigures]:
    """Figures of each channel's labels, by total time, longest first."""
    times: dict[tuple[str, str], list[int]] = {}
    unfinished: dict[tuple[str, str], int] = {}
    for one in trace.slices():
        key = one.label, one.channel
        took = times.setdefault(key, [])
        if one.duration is None:
            unfinished[key] = unfinished.get(key, 0) + 1
        else:
            took.append(one.duration)
    found = [_figures(key, took, unfinished.get(key, 0)) for key, took in times.items()]
    return sorted(found, key=lambda figures: (-figures.total, figures.label, figures.channel))


def by_process(trace: Trace) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """For each label and channel, the total time in each process, shortest first, in ns."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for process in trace.processes:
        totals: dict[tuple[str, str], int] = {}
        for thread in process.threads:
            for _, one in thread.walk():
                key = one.label, one.channel
                totals[key] = totals.get(key, 0) + (one.duration or 0)
        for key, total in totals.items():
            found.setdefault(key, []).append((total, process.name))
    return {key: sorted(totals) for key, totals in found.items()}


def _figures(key: tuple[str, str], took: list[int], unfinished: int) -> LabelFigures:
    if not took:
        return LabelFigures(*key, 0, 0, 0, 0.0, 0, 0, unfinished)
    took.sort()
    total, p95 = sum(took), took[max(-(-95 * len(took) // 100) - 1, 0)]  # The nearest rank.
    mean = total / len(took)
    return LabelFigures(*key, len(took), total, took[0], mean, p95, took[-1], unfinished)


def call_tree(thread: Thread) -> Node:
    """Merge the spans of one row into a tree: one node for each label at each place."""
    root = Node(thread.name)
    waiting: list[tuple[Node, Iterable[Slice]]] = [(root, thread.slices)]
    while waiting:
        parent, slices = waiting.pop()
        for one in slices:
            node = parent.children.setdefault(one.label, Node(one.label))
            if one.duration is None:
                node.unfinished += 1
            else:
                node.count += 1
                node.total += one.duration
            if one.children:
                waiting.append((node, one.children))
    return root


def extent(trace: Trace) -> tuple[int, int]:
    """The first and the last moment in the trace; ``(0, 0)`` if it is empty."""
    times = [t for one in trace.slices() for t in (one.start, one.start + (one.duration or 0))]
    times += [one.start for one in trace.instants() if one.label != "clocks"]
    for process in trace.processes:
        for counter in process.counters.values():
            times += [time for time, _ in counter.samples]
    return (min(times), max(times)) if times else (0, 0)
