"""Packets of Perfetto's TrackEvent format, put together from cached pieces.

Strings are named by numbers after their first use. Packets need not be in the order of time: who
reads them sorts. Field numbers are those of ``protos/perfetto/trace`` in Perfetto's sources.
"""

from __future__ import annotations

import struct

from .channels import MAX_ARGUMENT, MAX_LABEL, cut
from .wire import double, message, number, text, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: TracePacket
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
#: TrackEvent
_CATEGORY_IID, _ANNOTATION, _TYPE, _NAME_IID, _TRACK, _DOUBLE = 3, 4, 9, 10, 11, 44
BEGIN, END, INSTANT, VALUE = 1, 2, 3, 4
_ANNOTATED = varint(_ANNOTATION << 3 | 2)
#: InternedData
_CATEGORIES, _NAMES, _KEYS = 1, 2, 3
#: SequenceFlags: the first packet forgets what was interned, the others need it.
_CLEARED, _NEEDS_STATE = 1, 2
#: The track of the process; of a rank, tracks and sequences are its own: traces of several are
#: merged by writing one behind the other. So are numbers of processes and threads.
PROCESS, RANK_TRACKS, RANK_PIDS = 1, 32, 22
#: Perfetto shows no more spans within each other.
DEEPEST = 500
#: Labels of which the pieces are remembered.
REMEMBERED = 100_000
#: Epoch nanoseconds between these have nine bytes as a varint.
EARLIEST, LATEST = 1 << 56, (1 << 63) - 1
#: The two lowest parts of a timestamp, 14 bits each.
MASK = (1 << 14) - 1
LOW = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14)]

pack = struct.Struct("<d").pack
#: What stands before a timestamp, and what behind it.
Piece = tuple[bytes, bytes]


class Highs(dict[int, bytes]):
    """The part of a timestamp above its lowest 28 bits, as the last five bytes of a varint."""

    def __missing__(self, high: int) -> bytes:
        last = bytes([*((high >> shift & 127) | 128 for shift in (0, 7, 14, 21)), high >> 28])
        self[high] = last
        return last


class Row:
    """A row of the timeline, whose spans lie within each other or behind each other.

    Attributes:
        name: What stands beside it.
        number: Its track.
        stack: Spans that are not within another yet: begin, end, how many are within each other.
        end: The piece that ends a span.
        beside: The row for what crosses spans of this one.
    """

    __slots__ = ("beside", "end", "name", "number", "stack")

    def __init__(self, name: str, number_: int, end: Piece) -> None:
        self.name, self.number, self.end = name, number_, end
        self.stack: list[tuple[int, int, int]] = []
        self.beside: Row | None = None


class Encoder:
    """Makes packets of spans, instants and values.

    Args:
        write: Takes bytes.
        process: ``pid``, ``name`` and ``rank`` of it.
        offset: Nanoseconds from the recorder's clock to the epoch.

    Attributes:
        parts: Bytes that wait to be written.
        events: How many events there are.
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
        self._rows: dict[tuple[str, int], Row] = {}
        self._counters: dict[tuple[str, str], Piece] = {}
        self._events: dict[tuple[int, int, str, str], tuple[bytes, Piece]] = {}
        self._keys: dict[str, bytes] = {}
        self._last = PROCESS
        pids = (rank or 0) % 512 << RANK_PIDS
        self._pid, self._pids = process.get("pid", 0) + pids, pids
        self._put(self._sequence + number(_FLAGS, _CLEARED))
        named = number(1, self._pid) + text(6, cut(str(process.get("name", "")), MAX_LABEL))
        self._describe(PROCESS, message(3, named), parent=False)

    def _put(self, packet: bytes) -> None:
        self.parts.append(message(1, packet))

    def flush(self) -> None:
        """Write what waits."""
        self._write(b"".join(self.parts))
        self.parts.clear()
        for row in self._rows.values():
            if len(row.stack) > 100_000:
                del row.stack[:-50_000]

    # Tracks

    def _describe(self, track: int, more: bytes, parent: bool = True) -> None:
        own = number(1, track | self._base)
        if parent:
            own += number(5, PROCESS | self._base)
        self._put(message(_DESCRIPTOR, own + more))

    def _track(self) -> int:
        self._last += 1
        return self._last

    def row(self, name: str, thread: int = 0, first: bool = False) -> Row:
        """The row of this name, or of a thread, by its number in the system.

        Args:
            name: What stands beside it.
            thread: The thread; 0: it is a row of the process.
            first: Show it above the other rows of the process.
        """
        found = self._rows.get((name, thread))
        if found is None:
            track = self._track()
            if thread:
                ids = number(1, self._pid) + number(2, thread + self._pids)
                self._describe(track, message(4, ids + text(5, cut(name, MAX_LABEL))), parent=False)
            else:
                # Perfetto's viewer has rows in the alphabet's order: a space comes first.
                self._describe(track, text(2, cut(f" {name}" if first else name, MAX_LABEL)))
            end = self.piece(number(_TYPE, END) + number(_TRACK, track | self._base))
            found = self._rows[name, thread] = Row(name, track, end)
        return found

    def beside(self, row: Row) -> Row:
        """The row for what crosses spans of ``row``."""
        if row.beside is None:
            stem, _, last = row.name.rpartition(" (")
            again = stem and last[:-1].isdecimal()
            name = f"{stem} ({int(last[:-1]) + 1})" if again else f"{row.name} (2)"
            row.beside = self.row(name)
        return row.beside

    def counter(self, name: str, unit: str, group: str) -> Piece:
        """The piece of a counter's values; the value follows as eight bytes."""
        key = group, name
        if key not in self._counters:
            track = self._track()
            shown = text(6, unit) if unit else b""
            shown += text(7, group) if group else b""
            self._describe(track, text(2, cut(name, MAX_LABEL)) + message(8, shown))
            event = number(_TYPE, VALUE) + number(_TRACK, track | self._base)
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
        """A packet with room for a timestamp of nine bytes."""
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
        """The piece of a span's beginning, or of an instant."""
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

    def span(self, row: Row, begin: Callable[[Row], Piece], start: int, end: int) -> None:
        """A span on a row, or on one beside it where it crosses others.

        Args:
            row: The row.
            begin: Makes the piece of its beginning on a row.
            start: When it began.
            end: When it ended; the spans within it have come before, or none is to come.
        """
        while True:
            stack, at, height = row.stack, len(row.stack), 1
            # Two that begin at the same time would be taken for the other way around.
            first = start - (bool(stack) and stack[-1][0] == start)
            while at and stack[at - 1][0] >= first:
                at -= 1
                height = max(height, stack[at][2] + 1)
            if height <= DEEPEST and not (at and stack[at - 1][1] > first):
                break
            row = self.beside(row)
        del stack[at:]
        stack.append((first, end, height))
        self._at(begin(row), first)
        self._at(row.end, end)
        self.events += 2

    def nested(
        self,
        row: Row,
        channel: str,
        spans: list[tuple[str, int, int]],
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """A span with its arguments, and behind it the spans within it: label, begin, end."""
        for label, start, end in spans:
            self._at(self.named(BEGIN, row.number, channel, label, arguments), start)
            self._at(row.end, end)
            arguments = None
        self.events += 2 * len(spans)

    def _stamp(self, time: int) -> bytes:
        wall = time + self.offset
        if not EARLIEST <= wall <= LATEST:
            wall = min(max(wall, EARLIEST), LATEST)
        return LOW[wall & MASK] + LOW[wall >> 14 & MASK] + self.highs[wall >> 28]

    def instant(
        self, row: Row | None, time: int, channel: str, label: str, arguments: Any = None
    ) -> None:
        """An instant on a row; without one, on the process's."""
        track = PROCESS if row is None else row.number
        self._at(self.named(INSTANT, track, channel, label, arguments), time)
        self.events += 1

    def value(self, name: str, unit: str, group: str, channel: str, time: int, n: float) -> None:
        """A counter's value; one that has no place in a graph is an instant."""
        if n - n != 0:
            self.instant(None, time, channel, f"{name}: {n}")
            return
        before, after = self.counter(name, unit, group)
        self.parts += (before, self._stamp(time), after, pack(n))
        self.events += 1

    def notice(self, time: int, label: str, arguments: Mapping[str, Any]) -> None:
        """An instant about the trace itself, which is no event of it."""
        self.instant(None, time, "voir", label, arguments)
        self.events -= 1


def _annotation(value: object) -> bytes:
    """The value of a debug annotation (see DebugAnnotation in Perfetto's track_event.proto)."""
    if type(value) is int and 0 <= value < 1 << 62:
        return b"\x20" + varint(value)  # Most are; the same as below.
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return number(4, value)
    if isinstance(value, float):
        return double(5, value)
    return text(6, cut(value if isinstance(value, str) else repr(value), MAX_ARGUMENT))
