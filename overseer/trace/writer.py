"""The log of a run: the rings' events, raw and bounded, while the script runs; and reading it.

A log is a file of records, each four letters and a length before its data, and perhaps segments
beside it. The head's file has what events refer to (``ROWS``, a JSON object) and the first events
(``HOST``, of the structure ring; ``VALS``, of the value ring). When it has half of what the log may
have, further events go to segments of which the latest are kept; each begins with the state of the
fold (``FOLD``), so that steps are numbered as they were. A log that ends anywhere can be read.
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

#: What the log is called, and the trace beside it; a segment has its number after a dot.
LOG, NAME = "trace.log", "trace.pftrace"
MAGIC, FORMAT = b"voir log", 1
ROWS, HOST, VALS, FOLD = b"ROWS", b"HOST", b"VALS", b"FOLD"
_RECORD = struct.Struct("<4sI")
#: How many segments are kept.
KEPT = 4


class LogWriter:
    """Writes the log of this process.

    Args:
        path: The file, new.
        head: What is known from the start.
        most: How many bytes the log may have.
        ring: Keep the latest events only, instead of the first and the latest.
        report: Told once when something cannot be written.

    Attributes:
        written: Events that have been written.
        dropped: Events that are not in the log: too many, or they could not be written.

    Raises:
        OSError: The file cannot be made.
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
        self._segment = max((most if ring else most // 2) // KEPT, 1 << 12)
        self._piece, self._gap = self._segment // 2 // EVENT_SIZE * EVENT_SIZE, False
        self._head = _new(path)
        self._tail, self._number = -1, 0
        self._sizes: dict[int, int] = {self._head: 0}
        self._held: dict[int, int] = {}  # How many events a segment has.
        self._append(self._head, MAGIC)
        self.rows({"format": FORMAT, **head})

    def rows(self, facts: dict[str, Any]) -> bool:
        """Write what events refer to; whether that could be done."""
        data = json.dumps(facts, separators=(",", ":"), default=str).encode()
        return self._append(self._head, _RECORD.pack(ROWS, len(data)) + data)

    def events(self, tag: bytes, data: bytes, state: dict[str, Any]) -> None:
        """Write events.

        Args:
            tag: Of which ring.
            data: As they were drained.
            state: The fold's before them.
        """
        self._gap |= tag == HOST and bool(state.get("gap"))
        for at in range(0, len(data), self._piece):
            piece = data[at : at + self._piece]
            record = _RECORD.pack(tag, len(piece)) + piece
            if self._gap and tag == HOST:
                record = _fold({**state, "gap": True}) + record
            fd = self._head
            if self._tail >= 0 or self._sizes[fd] + len(record) > self._room:
                fd = self._segment_for(len(record), state)
            written = fd >= 0 and self._append(fd, record)
            self._gap = not written if tag == HOST else self._gap
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
        first = self._number - KEPT
        if first > 0:
            with suppress(OSError):
                os.unlink(f"{self._path}.{first}")
            self.dropped += self._held.pop(first, 0)
            self.rows({"dropped": self.dropped})
        self._append(fd, _fold(state))
        return fd

    def _append(self, fd: int, data: bytes) -> bool:
        """Write all of it or nothing."""
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
        """Write no more."""
        for fd in self._sizes:
            os.close(fd)
        self._sizes = {}


class TraceLog:
    """A log as it is on disk.

    Args:
        path: The head's file.

    Attributes:
        facts: What the rows say: ``pid``, ``name``, ``patterns`` and so on, the latest of each.
        sites: The table of sites.
        names: By module, from when on it has which name, and its class.
        parts: The parts of the run that are traced: those that have ended, then the others.
        threads: Names of threads, by their number in the system; ``numbers`` are the recorder's.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no log, or of another version of voir.
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
            if tag == ROWS:
                self._take(json.loads(data))
        if self.facts.get("format") != FORMAT:
            raise ValueError(f"it is of format {self.facts.get('format')}")
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
        """The head's file, and segments in order."""
        beside = self.path.parent.glob(f"{self.path.name}.*")
        found = {int(one.suffix[1:]): one for one in beside if one.suffix[1:].isdecimal()}
        return [self.path, *(found[number] for number in sorted(found))]

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(one.stat().st_size for one in self.files)

    @property
    def open(self) -> bool:
        """Whether the process that writes it may still run."""
        facts = self.facts
        if this_process()["host"] != facts.get("host"):
            return True
        pid, started = int(facts.get("pid", 0)), int(facts.get("started", 0))
        return lives(Header(pid, started, 0, 0, (0, 0), (0, 0), 0, (), (), ""))

    def events(self) -> Iterator[tuple[bytes, Any]]:
        """Events as they were written; ``FOLD`` and the fold's state where some are missing."""
        for file in self.files:
            number = int(file.suffix[1:]) if file != self.path else 0
            before = self.path.with_name(f"{self.path.name}.{number - 1}")
            missing = number > 1 and not before.exists()
            try:
                for tag, data in _records(file):
                    if tag == FOLD:
                        if missing or json.loads(data).get("gap"):
                            yield FOLD, json.loads(data)
                    elif tag in (HOST, VALS):
                        yield tag, data[: len(data) - len(data) % EVENT_SIZE]
            except (OSError, ValueError):
                continue  # A segment that has gone, or is damaged: the others are good.

    def remove(self) -> None:
        """Delete it."""
        for file in reversed(self.files):
            file.unlink(missing_ok=True)


def _new(path: Path | str) -> int:
    low = new(path)
    with suppress(OSError):  # So many descriptors are not allowed: this one will do.
        high = above(low)
        os.close(low)
        return high
    return low


def _fold(state: dict[str, Any]) -> bytes:
    data = json.dumps(state).encode()
    return _RECORD.pack(FOLD, len(data)) + data


def _records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """The records of a file; the last may be cut off.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no log's.
    """
    with reading(path) as file:
        if not path.suffix[1:].isdecimal() and file.read(len(MAGIC)) != MAGIC:
            raise ValueError("it is no log of voir's")
        while len(head := file.read(_RECORD.size)) == _RECORD.size:
            tag, size = _RECORD.unpack(head)
            data = file.read(size) if tag in (ROWS, HOST, VALS, FOLD) else b""
            if tag in (HOST, VALS) or len(data) == size:
                yield tag, data
            if len(data) < size:
                return


def threads_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Which threads record for the first time: their numbers, and those the system knows them by.

    Args:
        data: Events of the structure ring.
    """
    low, at = data[20::EVENT_SIZE], -1  # Their site is 0.
    while (at := low.find(0, at + 1)) >= 0:
        _, native, _, site, thread, _ = EVENT.unpack_from(data, at * EVENT_SIZE)
        if not site:
            yield thread, int(native)


def this_process() -> dict[str, Any]:
    """Who writes a log: what tells later whether it still does."""
    host = os.uname().nodename if hasattr(os, "uname") else ""
    return {"pid": os.getpid(), "started": process_start(os.getpid()), "host": host}


def logs(directory: Path) -> list[Path]:
    """The logs that a run, or the ranks of a job, has left in a directory or elsewhere."""
    found = [directory / LOG, *sorted(directory.glob(f"rank*/{LOG}"))]
    found += [one.with_suffix(".log") for one in elsewhere(directory)]
    return list({one.resolve(): one for one in found if one.is_file()}.values())


def elsewhere(directory: Path) -> list[Path]:
    """Where a run's trace may be that was written into another directory, as its record says."""
    try:
        known = Path(read_json(directory / "run.json")["trace"]["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [known, directory / known.name] if known.name != NAME else []
