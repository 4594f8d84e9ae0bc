"""Records as packets of Perfetto's TrackEvent format, a cached piece at a time.

A *segment* begins with a header, after which strings are named by numbers; it can be read without
any other. Field numbers are those of ``protos/perfetto/trace`` in Perfetto's sources.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from .describe import LABEL, annotation, cut, quantity
from .process import Process
from .recorder import BEGIN, END, INSTANT, VALUE, WIDTH, Record
from .tracks import COUNTER, PROCESS, ThreadTrack, Track
from .wire import double, message, number, text, varint

#: TracePacket
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
#: TrackEvent
_CATEGORY_IID, _ANNOTATION, _TYPE, _NAME_IID, _TRACK, _CATEGORY, _NAME = 3, 4, 9, 10, 11, 22, 23
_DOUBLE_VALUE = 44
#: TrackEvent.Type, by the kind of record.
_TYPES = {BEGIN: 1, END: 2, INSTANT: 3, VALUE: 4}
#: InternedData
_CATEGORIES, _NAMES, _ANNOTATIONS = 1, 2, 3
#: SequenceFlags: the header forgets what was interned, the others need it.
_CLEARED, _NEEDS_STATE = number(_FLAGS, 1), number(_FLAGS, 2)
_ONE_SEQUENCE = number(_SEQUENCE, 1)

_BEFORE_EVENT = _ONE_SEQUENCE + _NEEDS_STATE + varint(_EVENT << 3 | 2)

#: Perfetto shows no more spans within each other.
DEEPEST = 500
#: Strings and pieces that a segment remembers; more begin a new one.
REMEMBERED = 20_000
#: Epoch nanoseconds between these have nine bytes as a varint.
EARLIEST, LATEST = 1 << 56, (1 << 63) - 1

_BYTE = [bytes([low | 128]) for low in range(128)]
_pack = struct.Struct("<d").pack

#: What stands before the timestamp, and what after it.
Piece = tuple[bytes, bytes]


class Open(NamedTuple):
    """The spans that are open at one moment."""

    time: int
    stacks: dict[Track, tuple[tuple[str, str, int], ...]]


NOTHING_OPEN = Open(0, {})


class Encoder:
    """Turns records into packets.

    Args:
        process: Whose records they are; says what time it was at the origin of the clock.

    Attributes:
        events: Events that have been encoded.
        unbalanced: Ends without a begin, which are left out.
        refused: Events that could not be encoded, those of spans within too many others too.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._offset = process.wall_ns - process.now_ns
        self.events = self.unbalanced = self.refused = 0
        self._last = process.now_ns
        self._open: dict[int, Track] = {}
        self._forget()

    def _forget(self) -> None:
        self._begins: dict[tuple[Track, str, str], Piece] = {}
        self._instants: dict[tuple[Track, str, str], Piece] = {}
        self._ends: dict[Track, Piece] = {}
        self._values: dict[Track, Piece] = {}
        self._named_events: dict[tuple[int, Track, str, str], bytes] = {}
        self._described: set[int] = set()
        self._threads: dict[ThreadTrack, str] = {}
        self._strings: dict[tuple[int, str], int] = {}

    @property
    def full(self) -> bool:
        """Whether the segment remembers so much that another should begin."""
        known = len(self._named_events) + len(self._ends) + len(self._values)
        return known + len(self._strings) > REMEMBERED

    def header(self) -> bytes:
        """What begins a segment; everything that was interned is forgotten."""
        self._forget()
        return (
            _packet(_ONE_SEQUENCE + _CLEARED)
            + _packet(message(_DESCRIPTOR, self._process.descriptor()))
            + self._anchor()
        )

    def _anchor(self) -> bytes:
        """Which moments of which clocks belong together, and where: what merging needs."""
        return self._notice("clocks", self._process.anchors(), self._last)

    def _standing(self, event: bytes, time: int) -> bytes:
        """A packet that needs no header."""
        return _packet(
            number(_TIMESTAMP, self._wall(time)) + _ONE_SEQUENCE + message(_EVENT, event)
        )

    def _wall(self, time: int) -> int:
        return min(max(time + self._offset, EARLIEST), LATEST)

    def open(self) -> Open:
        """The spans that are open now."""
        stacks = {track: tuple(track.stack) for track in self._open.values()}
        return Open(self._last, stacks)

    def bridge(self, before: Open, after: Open, missing: int) -> bytes:
        """What stands where events are missing: it needs no header.

        Spans that were open before and no more after end; those that have begun meanwhile begin
        where they did; those that are open on both sides just go on.

        Args:
            before: The spans that are open where the gap begins.
            after: And where it ends.
            missing: How many events are missing so far.
        """
        closing, opening = [], []
        for track in {**before.stacks, **after.stacks}:
            had, has = before.stacks.get(track, ()), after.stacks.get(track, ())
            same = _same(had, has)
            over = min([before.time, *(begun for _, _, begun in has[same:])])
            at = number(_TRACK, track.number)
            closing += [self._standing(number(_TYPE, 2) + at, over)] * (len(had) - same)
            if same < len(has):
                opening.append(_packet(message(_DESCRIPTOR, self._descriptor(track))))
            for category, label, begun in has[same:]:
                event = number(_TYPE, 1) + at + text(_CATEGORY, category)
                opening.append(self._standing(event + text(_NAME, cut(label, LABEL)), begun))
        at_time = before.time if before.stacks else self._last
        notice = self._notice(f"{missing} events dropped", {"dropped": missing}, at_time)
        return b"".join([*closing, notice, *opening])

    def _notice(self, label: str, arguments: dict[str, object], time: int) -> bytes:
        """An instant on the process's own track that needs no header."""
        event = number(_TYPE, 3) + number(_TRACK, PROCESS)
        event += text(_CATEGORY, "voir") + text(_NAME, label)
        event += b"".join(_annotation(key, value) for key, value in arguments.items())
        return self._standing(event, time)

    # Records

    def encode(self, records: list[Any]) -> bytes:
        """The packets of these records, six values each; one that makes no sense is left out."""
        parts: list[bytes] = []
        each = zip(*[iter(records)] * WIDTH, strict=True)
        while True:
            try:
                self._encode(each, parts)
                break
            except Exception:  # Nothing is worth the rest of the trace.
                self.refused += 1
        if records:
            self._last = max(self._last, records[-WIDTH])
        return b"".join(parts)

    def _encode(self, records: Iterable[Record], parts: list[bytes]) -> None:
        begins, instants, ends, values = self._begins, self._instants, self._ends, self._values
        high, above, offset = -1, b"", self._offset
        for time, kind, track, channel, label, arguments in records:
            piece: Piece | None
            wall = time + offset
            if kind == BEGIN:
                stack = track.stack
                if len(stack) >= DEEPEST:
                    track.too_deep += 1
                    self.refused += 2
                    continue
                piece = begins.get((track, channel, label))
                if piece is None or arguments:
                    piece = self._begin(track, channel, label, arguments, parts)
                if not stack:
                    self._open[track.number] = track
                stack.append((channel, label, time))
            elif kind == END:
                stack = track.stack
                fits = stack and not track.too_deep and (label is None or stack[-1][1] == label)
                if not fits and not self._resolve(track, label, time, parts):
                    continue
                stack.pop()
                if not stack:
                    self._open.pop(track.number, None)
                piece = ends.get(track)
                if piece is None or arguments:
                    piece = self._end(track, arguments, parts)
            elif kind == VALUE:
                if type(label) is not float:
                    label = quantity_now(label)
                if label is None or label - label != 0:  # NaN and infinities are no height.
                    parts.append(self._no_number(track, channel, label, time))
                    continue
                piece = values.get(track) or self._value(track, parts)
            else:
                piece = instants.get((track, channel, label))
                if piece is None or arguments:
                    piece = self._instant(track, channel, label, arguments, parts)
            if not EARLIEST <= wall <= LATEST:
                wall = self._wall(time)
            if wall >> 21 != high:
                high = wall >> 21
                above = _six(high)
            parts += (
                piece[0],
                _BYTE[wall & 127],
                _BYTE[wall >> 7 & 127],
                _BYTE[wall >> 14 & 127],
                above,
                piece[1],
            )
            if kind == VALUE:
                parts.append(_pack(label))
            self.events += 1

    def skip(self, records: list[Any]) -> int:
        """Know what these records begin and end, and encode none; how many events they were."""
        before = self.events
        for time, kind, track, channel, label, _ in zip(*[iter(records)] * WIDTH, strict=True):
            if kind == BEGIN:
                if len(track.stack) >= DEEPEST or type(time) is not int:
                    track.too_deep += 1
                    continue
                self._open[track.number] = track
                track.stack.append((channel, label, time))
            elif kind == END:
                stack = track.stack
                fits = stack and not track.too_deep and (label is None or stack[-1][1] == label)
                if fits or self._resolve(track, label, 0, []):
                    stack.pop()
                    if not stack:
                        self._open.pop(track.number, None)
        if records:
            self._last = max(self._last, records[-WIDTH])
        self.events = before
        return len(records) // WIDTH

    def _resolve(self, track: Track, label: str | None, time: int, parts: list[bytes]) -> bool:
        """Whether an end that is not the innermost span's ends one all the same.

        Spans within the one that ends were left without ending: they end here.
        """
        stack = track.stack
        if track.too_deep:
            track.too_deep -= 1
            return False
        depth = next((d for d in range(len(stack) - 1, -1, -1) if stack[d][1] == label), None)
        if depth is None:
            self.unbalanced += 1
            return False
        inner = len(stack) - 1 - depth
        del stack[depth + 1 :]
        self.events += inner
        end = self._standing(number(_TYPE, 2) + number(_TRACK, track.number), time)
        parts += [end] * inner
        return True

    def _begin(
        self, track: Track, channel: str, label: str, arguments: Any, parts: list[bytes]
    ) -> Piece:
        event = self._named(1, track, channel, label, parts)
        if arguments:
            return _piece(event + self._annotated(arguments, parts))
        self._begins[track, channel, label] = piece = _piece(event)
        return piece

    def _instant(
        self, track: Track, channel: str, label: str, arguments: Any, parts: list[bytes]
    ) -> Piece:
        event = self._named(3, track, channel, label, parts)
        if arguments:
            return _piece(event + self._annotated(arguments, parts))
        self._instants[track, channel, label] = piece = _piece(event)
        return piece

    def _end(self, track: Track, arguments: Any, parts: list[bytes]) -> Piece:
        self._describe(track, parts)
        event = number(_TYPE, 2) + number(_TRACK, track.number)
        if arguments:
            return _piece(event + self._annotated(arguments, parts))
        self._ends[track] = piece = _piece(event)
        return piece

    def _value(self, track: Track, parts: list[bytes]) -> Piece:
        self._describe(track, parts)
        event = number(_TYPE, 4) + number(_TRACK, track.number)
        before, after = _piece(event + double(_DOUBLE_VALUE, 0.0))
        self._values[track] = piece = before, after[:-8]
        return piece

    def _no_number(self, track: Track, channel: str, value: object, time: int) -> bytes:
        """A counter's value that has no place in a graph is an instant beside it."""
        self.events += 1
        event = number(_TYPE, 3) + number(_TRACK, PROCESS) + text(_CATEGORY, cut(channel, LABEL))
        label = f"{track.name}: {'no number' if value is None else value}"
        return self._standing(event + text(_NAME, cut(label, LABEL)), time)

    def _named(
        self, kind: int, track: Track, channel: str, label: str, parts: list[bytes]
    ) -> bytes:
        known = self._named_events.get((kind, track, channel, label))
        if known is not None:
            return known
        self._describe(track, parts)
        category = self._string(_CATEGORIES, channel, parts)
        name = self._string(_NAMES, label, parts)
        event = number(_TYPE, kind) + number(_TRACK, track.number)
        event += number(_CATEGORY_IID, category) + number(_NAME_IID, name)
        self._named_events[kind, track, channel, label] = event
        return event

    def _annotated(self, arguments: dict[str, Any], parts: list[bytes]) -> bytes:
        found = b""
        for key, value in arguments.items():
            name = b"\x08" + varint(self._string(_ANNOTATIONS, key, parts))
            if type(value) is int and 0 <= value < 1 << 63:
                name += b"\x20" + varint(value)  # Most are; the same as below.
            else:
                name += annotation(value)
            found += b"\x22" + varint(len(name)) + name
        return found

    def renamed(self) -> bytes:
        """Descriptors of the threads that have another name than the segment says."""
        parts = []
        for track, name in list(self._threads.items()):
            if not track.look():
                del self._threads[track]  # It has ended.
            elif track.name != name:
                parts.append(_packet(message(_DESCRIPTOR, self._descriptor(track))))
        return b"".join(parts)

    # What a segment must have seen before it is referred to

    def _string(self, kind: int, value: str, parts: list[bytes]) -> int:
        value = cut(value, LABEL)
        known = self._strings.get((kind, value))
        if known is None:
            known = self._strings[kind, value] = len(self._strings) + 1
            entry = message(kind, number(1, known) + text(2, value))
            parts.append(_packet(_ONE_SEQUENCE + _NEEDS_STATE + message(_INTERNED, entry)))
        return known

    def _describe(self, track: Track, parts: list[bytes]) -> None:
        if track.number not in self._described:
            self._described.add(track.number)
            parts.append(_packet(message(_DESCRIPTOR, self._descriptor(track))))

    def _descriptor(self, track: Track) -> bytes:
        """A TrackDescriptor; the name of a thread may have changed since the last segment."""
        head = number(1, track.number)
        if isinstance(track, ThreadTrack):
            track.look()
            self._threads[track] = track.name
            thread = number(1, self._process.pid) + number(2, track.tid) + text(5, track.name)
            return head + message(4, thread)
        head += number(5, PROCESS) + text(2, track.name)
        if track.kind == COUNTER:
            unit = text(6, track.unit) if track.unit else b""
            head += message(8, unit + text(7, track.group))
        return head


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    """How many spans both begin with: the same ones, not just alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a is not b), min(len(one), len(other)))


def quantity_now(value: Any) -> float | None:
    """The number in a scalar of a device, which may have to be waited for; not by the script."""
    if type(value) is int and -(1 << 1000) < value < 1 << 1000:
        return float(value)
    found = quantity(value)
    if not hasattr(found, "item"):
        return found  # type: ignore[no-any-return]
    try:
        return float(found.item())
    except Exception:  # The device is lost, or it is no scalar.
        return None


def _six(high: int) -> bytes:
    """What remains of a timestamp above its lowest 21 bits, as the last six bytes of a varint."""
    last = high >> 35
    return bytes([*((high >> shift & 127) | 128 for shift in range(0, 35, 7)), last])


def _piece(event: bytes) -> Piece:
    """A packet with room for a timestamp of nine bytes."""
    after = _BEFORE_EVENT + varint(len(event)) + event
    return b"\x0a" + varint(1 + 9 + len(after)) + b"\x40", after


def _packet(data: bytes) -> bytes:
    return message(1, data)


def _annotation(key: str, value: object) -> bytes:
    return message(_ANNOTATION, text(10, key) + annotation(value))


__all__ = ["NOTHING_OPEN", "Encoder", "Open"]
