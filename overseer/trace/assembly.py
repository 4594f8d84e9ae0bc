"""From packets to a trace: names looked up, begins and ends matched, rows put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .reading import Counter, Process, Slice, Thread, Trace
from .wire import (
    Malformed,
    Value,
    as_bytes,
    as_double,
    as_number,
    as_text,
    fields,
    signed,
)

#: TracePacket fields.
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
Fields = list[tuple[int, Value]]


@dataclass
class _Row:
    """A track: what it is, and its events as they came."""

    parent: int = 0
    name: str = ""
    unit: str = ""
    pid: int | None = None
    tid: int | None = None
    is_process: bool = False
    is_counter: bool = False
    events: list[tuple[int, int, Slice]] = field(default_factory=list)
    samples: list[tuple[int, float]] = field(default_factory=list)


class _Event:
    """The parts of one TrackEvent."""

    def __init__(self) -> None:
        self.kind = self.track = 0
        self.label = self.channel = ""
        self.value: float | None = None
        self.args: dict[str, object] = {}


class Assembly:
    """Takes packets in the file's order; :meth:`trace` is what they show.

    Attributes:
        understood: How many packets were ones of a trace.
        anchors: Whose trace it is, and which moments of which clocks belong together.
    """

    def __init__(self) -> None:
        self.understood = 0
        self.anchors: dict[str, object] = {}
        self._rows: dict[int, _Row] = {}
        self._names: dict[int, dict[tuple[int, int], str]] = {}
        self._events = 0
        self._dropped = 0

    def add(self, packet: Fields) -> bool:
        """Whether ``packet`` made sense."""
        try:
            self._add(packet)
        except Malformed:
            return False
        return True

    def _add(self, packet: Fields) -> None:
        time = sequence = flags = 0
        event = interned = None
        for number, value in packet:
            if number == _TIMESTAMP:
                time = as_number(value)
            elif number == _SEQUENCE:
                sequence = as_number(value)
            elif number == _FLAGS:
                flags = as_number(value)
            elif number == _EVENT:
                event = as_bytes(value)
            elif number == _INTERNED:
                interned = as_bytes(value)
            elif number == _DESCRIPTOR:
                self._describe(as_bytes(value))
        names = self._names.setdefault(sequence, {})
        if flags & 1:
            names.clear()
            self.understood += 1
        if interned is not None:
            self._intern(names, interned)
        if event is not None:
            self._event(time, event, names)

    def _describe(self, data: bytes) -> None:
        found: dict[int, Value] = dict(fields(data))
        row = self._rows.setdefault(as_number(found.get(1, 0)), _Row())
        row.parent = as_number(found.get(5, row.parent))
        row.name = as_text(found.get(2, found.get(10, row.name.encode())))
        if 3 in found:
            inner = dict(fields(as_bytes(found[3])))
            row.is_process, row.pid = True, as_number(inner.get(1, 0))
            row.name = as_text(inner.get(6, b"")) or row.name
        if 4 in found:
            inner = dict(fields(as_bytes(found[4])))
            row.pid, row.tid = as_number(inner.get(1, 0)), as_number(inner.get(2, 0))
            row.name = as_text(inner.get(5, b"")) or row.name
        if 8 in found:
            row.is_counter = True
            row.unit = as_text(dict(fields(as_bytes(found[8]))).get(6, b""))
        self.understood += 1

    def _intern(self, names: dict[tuple[int, int], str], data: bytes) -> None:
        for kind, entry in fields(data):
            if kind in (1, 2, 3):
                found = dict(fields(as_bytes(entry)))
                names[kind, as_number(found.get(1, 0))] = as_text(found.get(2, b""))
        self.understood += 1

    def _event(self, time: int, data: bytes, names: dict[tuple[int, int], str]) -> None:
        event = _Event()
        for number, value in fields(data):
            if number == 9:
                event.kind = as_number(value)
            elif number == 11:
                event.track = as_number(value)
            elif number == 10:
                event.label = names.get((2, as_number(value)), f"name {value!r}")
            elif number == 3:
                event.channel = names.get((1, as_number(value)), f"category {value!r}")
            elif number == 23:
                event.label = as_text(value)
            elif number == 22:
                event.channel = as_text(value)
            elif number == 44:
                event.value = as_double(value)
            elif number == 30:
                event.value = float(signed(value))
            elif number == 4:
                _annotate(event.args, as_bytes(value), names)
        self._place(time, event)
        self.understood += 1

    def _place(self, time: int, event: _Event) -> None:
        row = self._rows.setdefault(event.track, _Row())
        if event.kind == _COUNTER:
            if event.value is not None:
                row.samples.append((time, event.value))
                self._events += 1
        elif event.kind in (_BEGIN, _END, _INSTANT):
            made = Slice(event.label, event.channel, time, args=event.args)
            row.events.append((time, event.kind, made))
            dropped = event.args.get("dropped")
            if event.channel == "voir" and isinstance(dropped, int):
                self._dropped = max(self._dropped, dropped)
            elif event.channel == "voir" and event.label == "clocks":
                self.anchors = self.anchors or event.args
            else:
                self._events += 1

    def trace(self, path: Path) -> Trace:
        """What the packets so far show."""
        processes: dict[int, Process] = {}
        trace = Trace(path, events=self._events, dropped=self._dropped, anchors=self.anchors)
        for number, row in self._rows.items():
            process = self._process(number, row, processes)
            if row.is_counter or row.samples:
                name = row.name or f"counter {number}"
                counter = process.counters.setdefault(name, Counter(name, row.unit))
                counter.samples = sorted([*counter.samples, *row.samples])
            elif row.events:
                thread = Thread(row.name or f"track {number}", row.tid)
                trace.unfinished += matched(thread, row.events)
                process.threads.append(thread)
        trace.processes = [p for p in processes.values() if p.threads or p.counters or p.pid]
        return trace

    def _process(self, number: int, row: _Row, processes: dict[int, Process]) -> Process:
        """The process a row belongs to: by what it says, or by its parents."""
        owner: _Row | None = row
        for _ in range(16):  # Damaged bytes can make a row its own ancestor.
            if owner is None or owner.is_process or owner.pid:
                break
            owner = self._rows.get(owner.parent)
        pid = owner.pid if owner is not None and owner.pid else 0
        name = owner.name if owner is not None and owner.is_process else ""
        found = processes.setdefault(pid, Process("", pid or None))
        found.name = found.name or name
        return found


def _annotate(args: dict[str, object], data: bytes, names: dict[tuple[int, int], str]) -> None:
    key = ""
    found: object = None
    for number, value in fields(data):
        if number == 1:
            key = names.get((3, as_number(value)), f"name {value!r}")
        elif number == 10:
            key = as_text(value)
        elif number == 2:
            found = bool(value)
        elif number == 3:
            found = as_number(value)
        elif number == 4:
            found = signed(value)
        elif number == 5:
            found = as_double(value)
        elif number in (6, 9):
            found = as_text(value)
    args[key] = found


def matched(thread: Thread, events: Iterable[tuple[int, int, Slice]]) -> int:
    """Put spans into ``thread``, each within those around it; how many have no end."""
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
