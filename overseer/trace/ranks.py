"""The traces of a job's ranks on one timeline: read together, or written as one file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .assembly import Assembly
from .export import BEYOND
from .packets import Damage, packets, with_bytes
from .reading import Process, Slice, Trace, content
from .wire import Malformed, Value, as_bytes, as_number, message, number, rewritten, text

Anchors = dict[str, object]
#: TracePacket, TrackEvent and TrackDescriptor fields that differ between ranks.
_TIMESTAMP, _SEQUENCE, _EVENT, _DESCRIPTOR, _TRACK = 8, 10, 11, 60, 11
_UUID, _PROCESS, _THREAD, _PARENT = 1, 3, 4, 5
#: Events of which no more than so many, rewritten, are remembered.
_REMEMBERED = 100_000


class Alignment:
    """What is to be added to the times of each rank, so that they are those of one clock.

    Ranks of one machine share its monotonic clock, so that a time of day set meanwhile is made up
    for. Of several machines it is not known how far apart their clocks are.

    Args:
        anchors: Of each rank.

    Attributes:
        hosts: How many machines there are.
        shifts: Nanoseconds to add, by rank's place.
    """

    def __init__(self, anchors: list[Anchors]) -> None:
        first: dict[object, int] = {}
        self.shifts: list[int] = []
        for one in anchors:
            origin = _origin(one)
            if origin is None:
                self.shifts.append(0)
            else:
                self.shifts.append(first.setdefault(_machine(one), origin) - origin)
        self.hosts = len({_machine(one) for one in anchors})


def _machine(anchors: Anchors) -> object:
    return anchors.get("boot_id") or anchors.get("host")


def _origin(anchors: Anchors) -> int | None:
    """The time of day at which the monotonic clock was zero, as this process saw it."""
    wall, now = anchors.get("realtime_ns"), anchors.get("monotonic_ns")
    return wall - now if isinstance(wall, int) and isinstance(now, int) else None


def rank_of(anchors: Anchors, file: Path) -> int:
    """The rank of the process that wrote ``file``."""
    known = anchors.get("rank")
    if isinstance(known, int):
        return known
    name = file.resolve().parent.name
    return int(name[4:]) if name.startswith("rank") and name[4:].isdigit() else 0


def _named(name: str, rank: int) -> str:
    return f"rank {rank}: {name}" if name else f"rank {rank}"


# Read together


def together(traces: list[Trace], path: Path) -> Trace:
    """One trace of several, their processes named by rank."""
    alignment = Alignment([trace.anchors for trace in traces])
    whole = Trace(path, anchors=traces[0].anchors, hosts=alignment.hosts)
    for trace, shift in zip(traces, alignment.shifts, strict=True):
        rank = rank_of(trace.anchors, trace.path)
        for process in trace.processes:
            process.name = _named(process.name, rank)
            _shift(process, shift)
        whole.processes += trace.processes
        for name in ("events", "torn_bytes", "tail_bytes", "broken_packets", "unfinished"):
            setattr(whole, name, getattr(whole, name) + getattr(trace, name))
        whole.dropped += trace.dropped
    return whole


def _shift(process: Process, shift: int) -> None:
    if not shift:
        return
    for thread in process.threads:
        for one in _each(thread.slices, thread.instants):
            one.start += shift
    for counter in process.counters.values():
        counter.samples = [(time + shift, value) for time, value in counter.samples]


def _each(slices: Iterable[Slice], instants: Iterable[Slice]) -> Iterator[Slice]:
    for one in slices:
        yield from (inner for _, inner in one.walk())
    yield from instants


# Written as one


def merge(files: list[Path], to: Path) -> int:
    """Write ``to``: one trace of those in ``files``, for Perfetto.

    Returns:
        How many machines they are of.

    Raises:
        VoirError: One cannot be read.
        OSError: It cannot be written; there is no half of it.
    """
    alignment = Alignment([anchors_of(file) for file in files])
    beside = to.with_name(to.name + ".part")
    taken: set[int] = set()
    try:
        with open(beside, "wb") as out:
            for place, (file, shift) in enumerate(zip(files, alignment.shifts, strict=True)):
                for packet in _Rewriting(place, file, shift, taken).packets():
                    out.write(packet)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, to)
    finally:
        beside.unlink(missing_ok=True)
    return alignment.hosts


def anchors_of(file: Path) -> Anchors:
    """The anchors in a trace; they stand near its beginning."""
    assembly = Assembly()
    for packet in packets(content(file), Damage()):
        assembly.add(packet)
        if assembly.anchors:
            break
    return assembly.anchors


class _Rewriting:
    """One rank's packets with tracks, sequences and times of their own.

    Args:
        place: Which of the files it is.
        file: The trace.
        shift: What is added to its times.
        taken: Numbers of processes that other ranks have; gets this one's.
    """

    def __init__(self, place: int, file: Path, shift: int, taken: set[int]) -> None:
        anchors = anchors_of(file)
        self._file, self._rank, self._shift = file, rank_of(anchors, file), shift
        self._tracks, self._sequence = (place + 1) << 32, place + 1
        pid = anchors.get("pid")
        self._beyond = BEYOND * place if pid in taken else 0
        if isinstance(pid, int):
            taken.add(pid)
        self._known: dict[bytes, bytes] = {}
        at = {_TIMESTAMP: self._time, _EVENT: self._event, _DESCRIPTOR: self._described}
        self._packet = {**at, _SEQUENCE: lambda value: number(_SEQUENCE, self._sequence)}
        self._track_event = {_TRACK: lambda value: self._track(_TRACK, value)}
        self._descriptor = {
            _UUID: lambda value: self._track(_UUID, value),
            _PARENT: lambda value: self._track(_PARENT, value),
            _PROCESS: self._process,
            _THREAD: lambda value: self._numbers(_THREAD, value, {1, 2}),
        }

    def packets(self) -> Iterator[bytes]:
        """Each packet, as a trace file has it; those that make no sense are left out."""
        for packet, _ in with_bytes(content(self._file), Damage()):
            try:
                yield message(1, rewritten(packet, self._packet))
            except Malformed:
                continue

    def _time(self, value: Value) -> bytes:
        return number(_TIMESTAMP, as_number(value) + self._shift)

    def _track(self, field: int, value: Value) -> bytes:
        return number(field, as_number(value) | self._tracks)

    def _event(self, value: Value) -> bytes:
        data = as_bytes(value)
        known = self._known.get(data)
        if known is None:
            known = message(_EVENT, rewritten(data, self._track_event))
            if len(self._known) < _REMEMBERED:
                self._known[data] = known
        return known

    def _described(self, value: Value) -> bytes:
        return message(_DESCRIPTOR, rewritten(as_bytes(value), self._descriptor))

    def _process(self, value: Value) -> bytes:
        def named(name: Value) -> bytes:
            return text(6, _named(as_bytes(name).decode("utf-8", "replace"), self._rank))

        return self._numbers(_PROCESS, value, {1}, {6: named})

    def _numbers(
        self, field: int, value: Value, which: set[int], more: dict[int, Any] | None = None
    ) -> bytes:
        """A process or thread, with numbers that are no other machine's."""
        changes = {each: self._moved(each) for each in which}
        return message(field, rewritten(as_bytes(value), {**changes, **(more or {})}))

    def _moved(self, field: int) -> Any:
        return lambda value: number(field, as_number(value) + self._beyond)
