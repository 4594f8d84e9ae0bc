"""Encodes events as packets of Perfetto's TrackEvent format, from cached pieces.

Strings are interned. Packets need not be in order of time: readers sort them. Field numbers are
those of ``protos/perfetto/trace`` in Perfetto's sources.
"""

from __future__ import annotations

import struct

from .channels import MAX_ARGUMENT, MAX_LABEL, cut
from .wire import as_bytes, as_number, double, fields, message, number, text, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: TracePacket
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
#: TrackEvent
_CATEGORY_IID, _ANNOTATION, _TYPE, _NAME_IID, _TRACK, _DOUBLE = 3, 4, 9, 10, 11, 44
TYPE_BEGIN, TYPE_END, TYPE_INSTANT, TYPE_COUNTER = 1, 2, 3, 4
_ANNOTATED = varint(_ANNOTATION << 3 | 2)
#: InternedData
_CATEGORIES, _NAMES, _KEYS = 1, 2, 3
#: SequenceFlags: the first packet clears interned strings, the others need them.
_CLEARED, _NEEDS_STATE = 1, 2
#: The process's track. Each rank has its own range of tracks, sequences, process and thread ids, so
#: that traces of several ranks are merged by concatenation.
PROCESS, RANK_TRACKS, RANK_PIDS = 1, 32, 22
#: Nested spans that Perfetto shows.
MAX_DEPTH = 500
#: Maximum count of cached labels.
REMEMBERED = 100_000
#: Epoch nanoseconds in this range have nine bytes as a varint.
EARLIEST, LATEST = 1 << 56, (1 << 63) - 1
#: After every moment of the recorder's clock.
_NEVER = 1 << 63
#: Two varint bytes by the 14 bits that they hold; a timestamp has two such pairs, then the rest.
MASK = (1 << 14) - 1
LOW = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14)]

pack = struct.Struct("<d").pack
#: The bytes of a packet before its timestamp, and those after it.
Piece = tuple[bytes, bytes]


class Highs(dict[int, bytes]):
    """The bits of a timestamp above the lowest 28, as the last five bytes of a varint."""

    def __missing__(self, high: int) -> bytes:
        last = bytes([*((high >> shift & 127) | 128 for shift in (0, 7, 14, 21)), high >> 28])
        self[high] = last
        return last


class Track:
    """A row of the timeline, whose spans nest.

    Attributes:
        name: The label of the row.
        number: The track's number.
        stack: Spans without a parent yet: begin, end, and depth of the spans within.
        end: The piece of a span's end.
        beside: The track for spans that overlap spans of this one.
    """

    __slots__ = ("beside", "end", "name", "number", "stack")

    def __init__(self, name: str, number_: int, end: Piece) -> None:
        self.name, self.number, self.end = name, number_, end
        self.stack: list[tuple[int, int, int]] = []
        self.beside: Track | None = None


class Encoder:
    """Makes packets of spans, instants and values.

    Args:
        write: Called with bytes.
        process: ``pid``, ``name`` and ``rank`` of the process.
        offset: Nanoseconds from the recorder's clock to the epoch.

    Attributes:
        parts: Bytes to be written.
        events: Count of begins, ends, instants and values.
        highs: Upper parts of timestamps.
    """

    def __init__(
        self, write: Callable[[bytes], object], process: Mapping[str, Any], offset: int
    ) -> None:
        self._write, self.offset = write, offset
        self.parts: list[bytes] = []
        self.events = 0
        self.highs = Highs()
        rank = process.get("rank")
        self._base = 0 if rank is None else (rank + 1) << RANK_TRACKS
        self._sequence = number(_SEQUENCE, 1 if rank is None else rank + 1)
        self._before = self._sequence + number(_FLAGS, _NEEDS_STATE) + varint(_EVENT << 3 | 2)
        self._strings: dict[tuple[int, str], int] = {}
        self._rows: dict[tuple[str, int], Track] = {}
        self._counters: dict[tuple[str, str], Piece] = {}
        self._events: dict[tuple[int, int, str, str], tuple[bytes, Piece]] = {}
        self._keys: dict[str, bytes] = {}
        self._last = PROCESS
        self._extent = _NEVER, 0
        pids = (rank or 0) % 512 << RANK_PIDS
        self._pid, self._pids = process.get("pid", 0) + pids, pids
        self._put(self._sequence + number(_FLAGS, _CLEARED))
        named = number(1, self._pid) + text(6, cut(str(process.get("name", "")), MAX_LABEL))
        self._describe(PROCESS, message(3, named), parent=False)

    def _put(self, packet: bytes) -> None:
        self.parts.append(message(1, packet))

    def flush(self) -> None:
        """Write ``parts``."""
        self._write(b"".join(self.parts))
        self.parts.clear()
        for row in self._rows.values():
            if row.stack:
                self._reaches(row.stack[0][0], row.stack[-1][1])
            if len(row.stack) > 100_000:
                del row.stack[:-50_000]

    def _reaches(self, start: int, end: int) -> None:
        first, last = self._extent
        if start < first or end > last:
            self._extent = min(first, start), max(last, end)

    @property
    def extent(self) -> tuple[int, int] | None:
        """The first and the last moment of the spans that were flushed, ns since the epoch."""
        first, last = self._extent
        return (first + self.offset, last + self.offset) if first <= last else None

    @property
    def rows(self) -> int:
        """Count of rows that are not counters, the process's own included."""
        return len(self._rows) + 1

    # Tracks

    def _describe(self, track: int, more: bytes, parent: bool = True) -> None:
        own = number(1, track | self._base)
        if parent:
            own += number(5, PROCESS | self._base)
        self._put(message(_DESCRIPTOR, own + more))

    def _track(self) -> int:
        self._last += 1
        return self._last

    def row(self, name: str, thread: int = 0, first: bool = False) -> Track:
        """The track of a thread, or one of the process.

        Args:
            name: The label of the row.
            thread: The thread's native id; 0 for a track of the process.
            first: Show it above the other tracks of the process.
        """
        found = self._rows.get((name, thread))
        if found is None:
            track = self._track()
            if thread:
                ids = number(1, self._pid) + number(2, thread + self._pids)
                self._describe(track, message(4, ids + text(5, cut(name, MAX_LABEL))), parent=False)
            else:
                # Perfetto's viewer sorts rows by name: a space comes first.
                self._describe(track, text(2, cut(f" {name}" if first else name, MAX_LABEL)))
            end = self.piece(number(_TYPE, TYPE_END) + number(_TRACK, track | self._base))
            found = self._rows[name, thread] = Track(name, track, end)
        return found

    def beside(self, row: Track) -> Track:
        """The track for spans that overlap spans of ``row``."""
        if row.beside is None:
            stem, _, last = row.name.rpartition(" (")
            again = stem and last[:-1].isdecimal()
            name = f"{stem} ({int(last[:-1]) + 1})" if again else f"{row.name} (2)"
            row.beside = self.row(name)
        return row.beside

    def counter(self, name: str, unit: str, group: str) -> Piece:
        """The piece of a counter's values; eight bytes of value follow it."""
        key = group, name
        if key not in self._counters:
            track = self._track()
            shown = text(6, unit) if unit else b""
            shown += text(7, group) if group else b""
            self._describe(track, text(2, cut(name, MAX_LABEL)) + message(8, shown))
            event = number(_TYPE, TYPE_COUNTER) + number(_TRACK, track | self._base)
            before, after = self.piece(event + double(_DOUBLE, 0.0))
            self._counters[key] = before, after[:-8]
        return self._counters[key]

    # Events

    def _string(self, kind: int, value: str) -> int:
        value = cut(value, MAX_LABEL)
        known = self._strings.get((kind, value))
        if known is None:
            known = self._strings[kind, value] = len(self._strings) + 1
            entry = message(kind, number(1, known) + text(2, value))
            flags = number(_FLAGS, _NEEDS_STATE)
            self._put(self._sequence + flags + message(_INTERNED, entry))
        return known

    def piece(self, event: bytes) -> Piece:
        """Split a packet around its timestamp of nine bytes."""
        after = self._before + varint(len(event)) + event
        return b"\x0a" + varint(1 + 9 + len(after)) + b"\x40", after

    def named(
        self,
        kind: int,
        track: int,
        channel: str,
        label: str,
        arguments: Mapping[str, Any] | None = None,
    ) -> Piece:
        """The piece of a span's begin, or of an instant."""
        known = self._events.get((kind, track, channel, label))
        if known is None:
            event = number(_TYPE, kind) + number(_TRACK, track | self._base)
            event += number(_CATEGORY_IID, self._string(_CATEGORIES, channel))
            event += number(_NAME_IID, self._string(_NAMES, label))
            known = event, self.piece(event)
            if len(self._events) < REMEMBERED:
                self._events[kind, track, channel, label] = known
        if not arguments:
            return known[1]
        event = known[0]
        for key, value in arguments.items():
            found = self._keys.get(key)
            if found is None:
                found = self._keys[key] = number(1, self._string(_KEYS, key))
            found += _annotation(value)
            event += _ANNOTATED + varint(len(found)) + found
        return self.piece(event)

    def _at(self, piece: Piece, time: int) -> None:
        self.parts += (piece[0], self._stamp(time), piece[1])

    def span(self, row: Track, begin: Callable[[Track], Piece], start: int, end: int) -> None:
        """Add a span to a track, or to the one beside it if it overlaps other spans.

        Args:
            row: The track.
            begin: Makes the piece of its begin on a track.
            start: Its begin, ns.
            end: Its end, ns. Inner spans must be added before the outer one.
        """
        while True:
            stack, at, height = row.stack, len(row.stack), 1
            # Readers would swap two spans that begin at the same time: begin 1 ns earlier.
            first = start - (bool(stack) and stack[-1][0] == start)
            while at and stack[at - 1][0] >= first:
                at -= 1
                height = max(height, stack[at][2] + 1)
            if height <= MAX_DEPTH and not (at and stack[at - 1][1] > first):
                break
            row = self.beside(row)
        del stack[at:]
        stack.append((first, end, height))
        self._at(begin(row), first)
        self._at(row.end, end)
        self.events += 2

    def nested(
        self,
        row: Track,
        channel: str,
        spans: list[tuple[str, int, int]],
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a span, with arguments, and then those within it, as ``(label, begin, end)``."""
        for label, start, end in spans:
            self._at(self.named(TYPE_BEGIN, row.number, channel, label, arguments), start)
            self._at(row.end, end)
            arguments = None
        self._reaches(spans[0][1], spans[0][2])
        self.events += 2 * len(spans)

    def _stamp(self, time: int) -> bytes:
        wall = time + self.offset
        if not EARLIEST <= wall <= LATEST:
            wall = min(max(wall, EARLIEST), LATEST)
        return LOW[wall & MASK] + LOW[wall >> 14 & MASK] + self.highs[wall >> 28]

    def instant(
        self, row: Track | None, time: int, channel: str, label: str, arguments: Any = None
    ) -> None:
        """Add an instant to a track; to the process's if ``row`` is None."""
        track = PROCESS if row is None else row.number
        self._at(self.named(TYPE_INSTANT, track, channel, label, arguments), time)
        self.events += 1

    def value(self, name: str, unit: str, group: str, channel: str, time: int, n: float) -> None:
        """Add a counter's value; NaN and the infinities become an instant."""
        if n - n != 0:
            self.instant(None, time, channel, f"{name}: {n}")
            return
        before, after = self.counter(name, unit, group)
        self.parts += (before, self._stamp(time), after, pack(n))
        self.events += 1

    def notice(self, time: int, label: str, arguments: Mapping[str, Any]) -> None:
        """Add an instant about the trace itself; ``events`` does not count it."""
        self.instant(None, time, "voir", label, arguments)
        self.events -= 1


def renamed(packet: bytes, name: str) -> bytes:
    """The descriptor of a process with another name.

    Args:
        packet: The packet's contents.
        name: The name.

    Raises:
        LookupError, Malformed: It is another packet.
    """
    track = dict(fields(as_bytes(dict(fields(packet))[_DESCRIPTOR])))
    process = dict(fields(as_bytes(track[3])))
    named = number(1, as_number(process[1])) + text(6, cut(name, MAX_LABEL))
    return message(_DESCRIPTOR, number(1, as_number(track[1])) + message(3, named))


def _annotation(value: object) -> bytes:
    """The value of a debug annotation (see DebugAnnotation in Perfetto's track_event.proto)."""
    if type(value) is int and 0 <= value < 1 << 62:
        return b"\x20" + varint(value)  # The same bytes as below; the frequent case.
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return number(4, value)
    if isinstance(value, float):
        return double(5, value)
    return text(6, cut(value if isinstance(value, str) else repr(value), MAX_ARGUMENT))
