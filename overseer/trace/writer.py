"""Writes and reads a run's log: raw events of both rings, bounded in size.

A log is a file of records: a tag of four letters, a length, data. The first file, the head, holds
the facts that events refer to (tag ``ROWS``, a JSON object) and the first events (``HOST`` of the
structure ring, ``VALS`` of the value ring). Once the head has half of the bytes that the log may
have, events go to segments, numbered files beside it, of which the latest are kept. A segment
begins with a snapshot of the fold (``FOLD``), so steps keep their numbers. A log that is cut off at
any byte can be read.
"""

from __future__ import annotations

import json
import os
import struct
from contextlib import suppress
from pathlib import Path

from ..boundary import above
from ..clock import process_start
from ..files import bounded, new, read_json, reading
from ..recorder.log import EVENT, EVENT_SIZE, Header, lives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: File names of the log and the trace; a segment's name is the log's with ``.NUMBER`` appended.
LOG_NAME, TRACE_NAME = "trace.log", "trace.pftrace"
LOG_MAGIC, LOG_FORMAT = b"voir log", 1
FACTS_TAG, STRUCTURE_TAG, VALUES_TAG, FOLD_TAG = b"ROWS", b"HOST", b"VALS", b"FOLD"
_TAGS = FACTS_TAG, STRUCTURE_TAG, VALUES_TAG, FOLD_TAG
_RECORD = struct.Struct("<4sI")
#: Segments kept on disk.
MAX_SEGMENTS = 4


class LogWriter:
    """Writes the log of this process.

    Args:
        path: The file to create.
        head: Facts known from the start.
        most: Maximum size of the log in bytes.
        ring: Keep the latest events only, instead of the first and the latest.
        report: Called with each error of a write.

    Attributes:
        written: Count of events written.
        dropped: Count of events missing from the log: over the limit, or not writable.

    Raises:
        OSError: The file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        head: dict[str, Any],
        most: int,
        ring: bool,
        report: Callable[[OSError], object],
    ) -> None:
        self._path, self._report = path, report
        self.written = self.dropped = 0
        self._room = 0 if ring else most // 2
        self._segment = max((most if ring else most // 2) // MAX_SEGMENTS, 1 << 12)
        self._piece, self._gap = self._segment // 2 // EVENT_SIZE * EVENT_SIZE, False
        self._head = _new(path)
        self._tail, self._number = -1, 0
        self._sizes: dict[int, int] = {self._head: 0}
        self._held: dict[int, int] = {}  # Count of events by segment.
        self._append(self._head, LOG_MAGIC)
        self.rows({"format": LOG_FORMAT, **head})

    def rows(self, facts: dict[str, Any]) -> bool:
        """Write facts that events refer to; False if the write failed."""
        data = json.dumps(facts, separators=(",", ":"), default=str).encode()
        return self._append(self._head, _RECORD.pack(FACTS_TAG, len(data)) + data)

    def events(self, tag: bytes, data: bytes, state: dict[str, Any]) -> None:
        """Write events.

        Args:
            tag: The tag of their ring.
            data: The events, as drained.
            state: The fold's snapshot before them.
        """
        self._gap |= tag == STRUCTURE_TAG and bool(state.get("gap"))
        for at in range(0, len(data), self._piece):
            piece = data[at : at + self._piece]
            record = _RECORD.pack(tag, len(piece)) + piece
            if self._gap and tag == STRUCTURE_TAG:
                record = _fold({**state, "gap": True}) + record
            fd = self._head
            if self._tail >= 0 or self._sizes[fd] + len(record) > self._room:
                fd = self._segment_for(len(record), state)
            written = fd >= 0 and self._append(fd, record)
            self._gap = not written if tag == STRUCTURE_TAG else self._gap
            count = len(piece) // EVENT_SIZE
            if not written:
                self.dropped += count
                continue
            self.written += count
            if self._number:
                self._held[self._number] += count

    def _segment_for(self, size: int, state: dict[str, Any]) -> int:
        if self._tail >= 0 and self._sizes[self._tail] + size <= self._segment:
            return self._tail
        if self._tail >= 0:
            os.close(self._tail)
            del self._sizes[self._tail]
            self._tail = -1
        try:
            path = f"{self._path}.{self._number + 1}"
            with suppress(FileNotFoundError):
                os.unlink(path)
            fd = _new(path)
        except OSError as error:
            self._report(error)
            return -1
        self._tail, self._number = fd, self._number + 1
        self._sizes[fd], self._held[self._number] = 0, 0
        first = self._number - MAX_SEGMENTS
        if first > 0:
            with suppress(OSError):
                os.unlink(f"{self._path}.{first}")
            self.dropped += self._held.pop(first, 0)
            self.rows({"dropped": self.dropped})
        self._append(fd, _fold(state))
        return fd

    def _append(self, fd: int, data: bytes) -> bool:
        """Write all of the data, or none."""
        try:
            written = 0
            with bounded():
                while written < len(data):
                    written += os.write(fd, data[written:] if written else data)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(fd, self._sizes[fd])
                os.lseek(fd, self._sizes[fd], os.SEEK_SET)
            self._report(error)
            return False
        self._sizes[fd] += len(data)
        return True

    def close(self) -> None:
        """Close the files."""
        for fd in self._sizes:
            os.close(fd)
        self._sizes = {}


class TraceLog:
    """A log on disk.

    Args:
        path: The head's file.

    Attributes:
        facts: The latest value of each fact: ``pid``, ``name``, ``patterns`` and so on.
        sites: The table of sites.
        names: By module: the time from which a name holds, the name, and the module's class.
        parts: The traced parts of the run: those that have ended, then the open ones.
        threads: Names of threads by native id; ``numbers`` maps the recorder's numbers to those.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a log, or another version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}
        self.sites: list[dict[str, Any]] = []
        self.names: dict[int, list[tuple[int, str, str]]] = {}
        self.threads: dict[int, str] = {}
        self.numbers: dict[int, int] = {}
        self.parts: list[dict[str, Any]] = []
        for tag, data in _records(path):
            if tag == FACTS_TAG:
                self._take(json.loads(data))
        if self.facts.get("format") != LOG_FORMAT:
            raise ValueError(f"unknown log format {self.facts.get('format')}")
        self.parts += self.facts.get("parts") or ()

    def _take(self, rows: dict[str, Any]) -> None:
        self.sites += rows.pop("sites", ())
        self.parts += rows.pop("ended", ())
        for module, since, name, kind in rows.pop("names", ()):
            self.names.setdefault(module, []).append((since, name, kind))
        self.threads |= {int(number): name for number, name in rows.pop("threads", {}).items()}
        self.numbers |= dict(rows.pop("numbers", ()))
        self.facts |= rows

    @property
    def files(self) -> list[Path]:
        """The head's file, then the segments in order."""
        beside = self.path.parent.glob(f"{self.path.name}.*")
        found = {int(one.suffix[1:]): one for one in beside if one.suffix[1:].isdecimal()}
        return [self.path, *(found[number] for number in sorted(found))]

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(one.stat().st_size for one in self.files)

    @property
    def open(self) -> bool:
        """Whether the process that writes it may be alive."""
        facts = self.facts
        if this_process()["host"] != facts.get("host"):
            return True
        pid, started = int(facts.get("pid", 0)), int(facts.get("started", 0))
        return lives(Header(pid, started, 0, 0, (0, 0), (0, 0), 0, (), (), ""))

    def events(self) -> Iterator[tuple[bytes, Any]]:
        """Yield ``(tag, events)`` as written; ``(FOLD_TAG, snapshot)`` after missing events."""
        for file in self.files:
            number = int(file.suffix[1:]) if file != self.path else 0
            before = self.path.with_name(f"{self.path.name}.{number - 1}")
            missing = number > 1 and not before.exists()
            try:
                for tag, data in _records(file):
                    if tag == FOLD_TAG:
                        if missing or json.loads(data).get("gap"):
                            yield FOLD_TAG, json.loads(data)
                    elif tag in (STRUCTURE_TAG, VALUES_TAG):
                        yield tag, data[: len(data) - len(data) % EVENT_SIZE]
            except (OSError, ValueError):
                continue  # A deleted or damaged segment; the others can be read.

    def remove(self) -> None:
        """Delete its files."""
        for file in reversed(self.files):
            file.unlink(missing_ok=True)


def _new(path: Path | str) -> int:
    low = new(path)
    with suppress(OSError):  # Over the limit on descriptors: use the low one.
        high = above(low)
        os.close(low)
        return high
    return low


def _fold(state: dict[str, Any]) -> bytes:
    data = json.dumps(state).encode()
    return _RECORD.pack(FOLD_TAG, len(data)) + data


def _records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a file; the last may be cut off.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a log.
    """
    with reading(path) as file:
        if not path.suffix[1:].isdecimal() and file.read(len(LOG_MAGIC)) != LOG_MAGIC:
            raise ValueError("not a log of voir's")
        while len(head := file.read(_RECORD.size)) == _RECORD.size:
            tag, size = _RECORD.unpack(head)
            data = file.read(size) if tag in _TAGS else b""
            if tag in (STRUCTURE_TAG, VALUES_TAG) or len(data) == size:
                yield tag, data
            if len(data) < size:
                return


def threads_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the recorder's number and the native id of each thread that begins to record.

    Args:
        data: Events of the structure ring.
    """
    low, at = data[20::EVENT_SIZE], -1  # Low bytes of sites; a thread's first event has site 0.
    while (at := low.find(0, at + 1)) >= 0:
        _, native, _, site, thread, _ = EVENT.unpack_from(data, at * EVENT_SIZE)
        if not site:
            yield thread, int(native)


def this_process() -> dict[str, Any]:
    """Identify this process, so that readers of the log can check whether it is alive."""
    host = os.uname().nodename if hasattr(os, "uname") else ""
    return {"pid": os.getpid(), "started": process_start(os.getpid()), "host": host}


def logs(directory: Path) -> list[Path]:
    """The logs of a run or of a job's ranks, in its directory or elsewhere."""
    found = [directory / LOG_NAME, *sorted(directory.glob(f"rank*/{LOG_NAME}"))]
    found += [one.with_suffix(".log") for one in elsewhere(directory)]
    return list({one.resolve(): one for one in found if one.is_file()}.values())


def elsewhere(directory: Path) -> list[Path]:
    """Possible paths of a trace outside of the run's directory, from its ``run.json``."""
    try:
        known = Path(read_json(directory / "run.json")["trace"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [known, directory / known.name] if known.name != TRACE_NAME else []
