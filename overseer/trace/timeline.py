"""The traces of a job's ranks on one timeline: read one at a time, merged, or summed up."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from itertools import islice
from math import inf
from pathlib import Path

from ..errors import VoirError
from ..files import reading, whole
from .reading import Slice, Trace, read_trace, trace_files, whole_packets
from .wire import message, read_varint, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from .clocks import Correction

#: Bytes of a trace that are held at a time.
_PIECE = 1 << 22
#: Bytes in which a packet must have ended.
_LONGEST = 1 << 26
_STAMP = 0x40


def _in_c() -> Callable[[bytearray, int, int, float], int]:
    """The function that moves timestamps; in Python, 100 times as slow, if not compiled."""
    try:
        found: Callable[[bytearray, int, int, float], int] = import_module(
            "overseer.recorder._shift"
        ).shift
    except ImportError:
        return shifted
    return found


def shifted(buffer: bytearray, at: int, offset: int, rate: float) -> int:
    """Add ``offset + rate * (time - at)`` to packets' times; return the bytes in whole packets."""
    done = 0
    for start, done in whole_packets(bytes(buffer)):
        if start < done and buffer[start] == _STAMP:
            time, after = read_varint(memoryview(buffer), start + 1)
            if after - start == 10:
                moved = time + offset + int(rate * (time - at))
                buffer[start + 1 : after] = varint(max(moved, 1 << 56))
    return done


shift = _in_c()


class Timeline:
    """The traces of a job, whose machines' clocks are aligned where that is possible.

    Args:
        files: The traces of its ranks.

    Attributes:
        files: The traces that can be read.
        digests: Of each trace.
        machines: The machines of the job.
        said: How their clocks are aligned, and which traces are left out, in lines.
        names: The process of each trace, with its machine if there are several.

    Raises:
        VoirError: No file can be read, or is a trace.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        from .clocks import align, said, same_clock
        from .digest import Digest, read_digest

        self.files, self.digests, left = list[Path](), list[Digest](), list[VoirError]()
        for file in files:
            try:
                self.digests.append(read_digest(file))
                self.files.append(file)
            except VoirError as error:
                left.append(error)
        if not self.files:
            raise left[0]
        self.machines = align(self.digests)
        self.said = [*said(self.machines), *(f"left out: {error.what}" for error in left)]
        self._lines: dict[int, Correction] = {}
        self.names = [digest.name for digest in self.digests]
        for machine in self.machines:
            line = machine.shift
            for rank in machine.ranks:
                same = same_clock(self.digests, machine, rank)
                self._lines[rank] = line._replace(at=line.at - same, offset=line.offset + same)
                if len(self.machines) > 1:
                    self.names[rank] = _on(self.names[rank], machine.name, line)

    @property
    def extent(self) -> tuple[int, int]:
        """The first and the last moment, ns since the epoch."""
        times = [
            (self._lines[rank].moved(digest.begin), self._lines[rank].moved(digest.end))
            for rank, digest in enumerate(self.digests)
        ]
        return min(begin for begin, _ in times), max(end for _, end in times)

    def traces(self) -> Iterator[Trace]:
        """Read the traces in turn, with times on the one clock."""
        for rank, file in enumerate(self.files):
            trace, line = read_trace(file), self._lines[rank]
            for process in trace.processes[:1]:
                process.name = self.names[rank]
            if line.offset or line.rate:
                _move(trace, line)
            yield trace

    def merge(self, to: Path) -> None:
        """Write ``to``: all traces, up to their last complete packets.

        Raises:
            OSError: The file cannot be written; nothing is left of it.
        """
        with whole(to, durable=False) as written:
            for rank, file in enumerate(self.files):
                line, left = self._lines[rank], self.digests[rank].size
                with reading(file) as source:
                    held = bytearray(source.read(min(_PIECE, left)))
                    left -= len(held)
                    if self.names[rank] != self.digests[rank].name:
                        held = _named(held, self.names[rank])
                    while held:
                        done = shift(held, line.at, line.offset, line.rate)
                        written.write(memoryview(held)[:done])
                        more = source.read(min(_PIECE, left))
                        left -= len(more)
                        if not more or not (done or len(held) < _LONGEST):
                            break  # The end, or what is no packet.
                        held = held[done:] + more


def _named(data: bytearray, name: str) -> bytearray:
    """The first bytes of a trace with another name of its process."""
    from .encoder import renamed

    with suppress(ValueError, LookupError):  # Not a trace of ours.
        first, (start, end) = islice(whole_packets(bytes(data[:4096])), 2)
        return data[: first[1]] + message(1, renamed(bytes(data[start:end]), name)) + data[end:]
    return data


def _on(name: str, machine: str, line: Correction) -> str:
    """The name of a process with its machine: ``rank 3 on node-b: main.py``."""
    rank, colon, script = name.partition(":")
    beside = " (clock not aligned)" if line.uncertainty == inf else ""
    return f"{rank} on {machine}{beside}{colon}{script}"


def _move(trace: Trace, line: Correction) -> None:
    def move(one: Slice) -> None:
        start = one.start
        one.start = line.moved(start)
        if one.duration is not None:
            one.duration = line.moved(start + one.duration) - one.start

    for one in trace.slices():
        move(one)
    for one in trace.instants():
        move(one)
    for process in trace.processes:
        for counter in process.counters.values():
            counter.samples = [(line.moved(time), value) for time, value in counter.samples]


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace, complete or not.

    Args:
        path: The file, or a run's directory; the traces of a job's ranks share one timeline.

    Raises:
        VoirError: There is no file, it cannot be read, or it is not a Perfetto trace.
    """
    files = trace_files(path)
    if len(files) == 1:
        return read_trace(files[0])
    timeline = Timeline(files)
    traces = list(timeline.traces())
    every = Trace(Path(path), anchors=traces[0].anchors)
    for trace in traces:
        every.processes += trace.processes
        names = "events", "torn_bytes", "tail_bytes", "broken_packets", "unfinished", "dropped"
        for name in names:
            setattr(every, name, getattr(every, name) + getattr(trace, name))
    every.hosts, every.notes = len(timeline.machines), timeline.said
    return every
