"""A trace read back: processes, threads, spans within spans, instants, counters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import VoirError

#: What a run directory calls its trace.
NAME = "trace.pftrace"


@dataclass
class Slice:
    """A span, or an instant.

    Attributes:
        label: What it is called.
        channel: Who recorded it.
        start: Nanoseconds since the epoch.
        duration: Nanoseconds; ``None`` when it has not ended in the trace.
        args: What was recorded with it.
        children: The spans within it.
    """

    label: str
    channel: str
    start: int
    duration: int | None = None
    args: dict[str, object] = field(default_factory=dict)
    children: list[Slice] = field(default_factory=list)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Slice]]:
        """It and all within it, with how deep each is."""
        waiting = [(depth, self)]
        while waiting:  # No recursion: 500 spans within each other are allowed.
            level, one = waiting.pop()
            yield level, one
            waiting.extend((level + 1, child) for child in reversed(one.children))


@dataclass
class Thread:
    """A row of the timeline: a thread, or a row that a process has besides.

    Attributes:
        name: What stands beside it.
        tid: The thread's number in the system; ``None`` for other rows.
        slices: The spans that are not within another.
        instants: Moments, in order.
    """

    name: str
    tid: int | None = None
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[int, Slice]]:
        """Every span, with how deep it is."""
        for one in self.slices:
            yield from one.walk()


@dataclass
class Counter:
    """A number over time.

    Attributes:
        name: What it is called.
        unit: Of the values; empty when not stated.
        samples: Nanoseconds since the epoch, and the value from then on.
    """

    name: str
    unit: str = ""
    samples: list[tuple[int, float]] = field(default_factory=list)

    @property
    def values(self) -> list[float]:
        """The values, in order."""
        return [value for _, value in self.samples]


@dataclass
class Process:
    """One process.

    Attributes:
        threads: Its threads and other rows.
        counters: By name.
    """

    name: str
    pid: int | None = None
    threads: list[Thread] = field(default_factory=list)
    counters: dict[str, Counter] = field(default_factory=dict)


@dataclass
class Trace:
    """A trace file, as far as it could be read.

    Attributes:
        path: The file.
        processes: What it shows.
        events: Begins, ends, instants and values that were read.
        torn_bytes: Bytes that could not be read.
        tail_bytes: Of these, how many begin a packet at the end that is not finished.
        broken_packets: Packets that made no sense.
        unfinished: Spans that have no end.
        dropped: Events that the writer says it left out.
        anchors: Which process wrote it, where, and which moments of its clocks belong together.
        hosts: How many machines it is of. The clocks of one machine are brought in line; those of
            several are as much apart as the machines' time of day is.
    """

    path: Path
    processes: list[Process] = field(default_factory=list)
    events: int = 0
    torn_bytes: int = 0
    tail_bytes: int = 0
    broken_packets: int = 0
    unfinished: int = 0
    dropped: int = 0
    anchors: dict[str, object] = field(default_factory=dict)
    hosts: int = 1

    @property
    def threads(self) -> list[Thread]:
        """The rows of all processes."""
        return [thread for process in self.processes for thread in process.threads]

    @property
    def counters(self) -> dict[str, Counter]:
        """The counters of all processes, by name; of the same name, the first."""
        found: dict[str, Counter] = {}
        for process in self.processes:
            for name, counter in process.counters.items():
                found.setdefault(name, counter)
        return found

    def slices(self) -> Iterator[Slice]:
        """Every span, those within others too."""
        for thread in self.threads:
            for _, one in thread.walk():
                yield one

    def instants(self) -> Iterator[Slice]:
        """Every instant."""
        for thread in self.threads:
            yield from thread.instants


#: What files that are no traces begin with, what they are, and what to do with them.
_KINDS = (
    (b"\x1f\x8b", "it is compressed", "Unpack it first: gunzip."),
    (b"PK\x03\x04", "it is a zip file", "Unpack it first: unzip."),
    (b"version https://git-lfs", "it is a pointer of Git LFS", "Fetch the file: git lfs pull."),
    (b"\x7fELF", "it is a program", "Name a run's directory."),
)
_OURS = "voir reads the .pftrace files that voir --trace writes."
_ANY = "Open it at https://ui.perfetto.dev; " + _OURS


def _other_kind(data: bytes) -> tuple[str, str]:
    """What a file is that is no trace, and what to do."""
    for begins, what, remedy in _KINDS:
        if data.startswith(begins):
            return f": {what}", remedy
    start = data[:4096].lstrip()
    if start.startswith((b"{", b"[")):
        chrome = b'"traceEvents"' in data or b'"ph"' in data
        return (": it is a Chrome trace, in JSON", _ANY) if chrome else (": it is JSON", _OURS)
    return "", _OURS


def trace_file(path: str | os.PathLike[str]) -> Path:
    """The trace that ``path`` names: the file, or the one in a run directory.

    Raises:
        VoirError: There is none, or the directory is that of a job of several.
    """
    found = trace_files(path)
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.parent.name for each in found[:5])
    raise VoirError("no-trace", f"{path} holds those of several ranks", f"Name one: {names}.")


def trace_files(path: str | os.PathLike[str]) -> list[Path]:
    """The traces that ``path`` names: the file, or those of a run directory's ranks.

    Raises:
        VoirError: There is none.
    """
    given = Path(path)
    if given.is_dir():
        found = [given / NAME] if (given / NAME).is_file() else by_rank(given) or elsewhere(given)
    else:
        found = [given] if given.is_file() else []
    if found:
        return found
    raise VoirError("no-trace", _absent(given), "Record one: voir --trace SCRIPT")


def _absent(given: Path) -> str:
    """Why there is no trace at ``given``."""
    for place in (given / NAME, given):
        if os.path.lexists(place) and not place.is_dir():
            return f"{place} is no file that can be read"
    if not given.is_dir():
        return f"there is no trace at {given}"
    others = sorted(path.name for path in given.glob("*.pftrace") if path.name != NAME)
    return f"the directory {given} has no {NAME}" + (
        f"; it has {', '.join(others[:5])}" if others else ""
    )


def by_rank(directory: Path) -> list[Path]:
    """The traces of a job's ranks, in order."""
    found = [each for each in directory.glob(f"rank*/{NAME}") if each.parent.name[4:].isdigit()]
    return sorted(found, key=lambda each: int(each.parent.name[4:]))


def elsewhere(directory: Path) -> list[Path]:
    """The trace that a run wrote into another directory, as its record says."""
    import json

    try:
        known = json.loads((directory / "run.json").read_bytes())["trace"]["path"]
        found = [Path(known), directory / Path(known).name]
        return [path for path in found if path.name != NAME and path.is_file()][:1]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace, whatever state its process left it in.

    Args:
        path: The file, or a run directory that holds one; of a job, one for each rank, which are
            put on one timeline.

    Raises:
        VoirError: There is no file, it cannot be read, or it is no Perfetto trace.
    """
    traces = [read_trace(file) for file in trace_files(path)]
    if len(traces) == 1:
        return traces[0]
    from .ranks import together

    return together(traces, Path(path))


def content(file: Path) -> bytes:
    """The bytes of ``file``.

    Raises:
        VoirError: It cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        what = f"{file} cannot be read: {error.strerror or error}"
        raise VoirError("no-trace", what, "Look at its permissions.") from None


def read_trace(file: Path) -> Trace:
    """Read one file.

    Raises:
        VoirError: It cannot be read, or is no Perfetto trace.
    """
    from .assembly import Assembly
    from .packets import Damage, packets

    data = content(file)
    damage, assembly = Damage(), Assembly()
    for packet in packets(data, damage):
        damage.packets += not assembly.add(packet)
    recognised = assembly.understood or damage.blocks or damage.tail == len(data)
    if data.strip(b"\0") and not recognised:
        kind, remedy = _other_kind(data)
        raise VoirError("not-a-trace", f"{file} is no Perfetto trace{kind}", remedy)
    trace = assembly.trace(file)
    trace.torn_bytes, trace.tail_bytes = damage.bytes, damage.tail
    trace.broken_packets = damage.packets
    return trace
