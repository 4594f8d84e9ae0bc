"""What channels record in this process as a trace, made logs, and Perfetto's processor."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from overseer.recorder import recorder, table
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT
from overseer.trace import Trace, open_trace
from overseer.trace.channels import _state, record, stop
from overseer.trace.rows import make
from overseer.trace.writer import STRUCTURE_TAG, VALUES_TAG, LogWriter, TraceLog, this_process

from .processor import running

#: When made events happen, by the recorder's clock and by the time of day.
NOW, WALL = 10**12, 1_790_000_000 * 10**9
NAN = float("nan")


@pytest.fixture(scope="session")
def processor():
    """Perfetto's trace processor; the tests that need it are skipped where it cannot be had."""
    with running() as started:
        yield started


class Tracing:
    """What this process records, from the beginning of a test on."""

    def __init__(self, path: Path, patterns: tuple[str, ...]) -> None:
        self.path = path
        recorder.open(1 << 10, 1 << 14)
        self._structure = recorder.drain(k.STRUCTURE, 0)
        self._values = recorder.drain(k.VALUES, 0)[1]
        record(patterns)

    def end(self) -> Trace:
        """The trace of it."""
        stop()
        log = self.path.with_suffix(".log")
        log.unlink(missing_ok=True)
        head = {**this_process(), "name": "test", "wall_ns": WALL, "now_ns": recorder.now()}
        writer = LogWriter(log, head, 1 << 24, False, pytest.fail)
        names = {str(one.native_id): one.name for one in threading.enumerate()}
        writer.rows({"sites": table.rows, "threads": names})
        data = self._structure[0] + recorder.drain(k.STRUCTURE, self._structure[1])[0]
        writer.events(STRUCTURE_TAG, data, {})
        writer.events(VALUES_TAG, recorder.drain(k.VALUES, self._values)[0], {})
        writer.close()
        make(TraceLog(log), self.path)
        return open_trace(self.path)


@pytest.fixture
def tracing(tmp_path):
    """Begins to record in this process."""

    _state.channels.clear()
    yield lambda *patterns: Tracing(tmp_path / "trace.pftrace", patterns or ("*",))
    stop()
    recorder.tasks(None, None)
    recorder.close()
    _state.channels.clear()


class Making:
    """Makes logs of events that a test names, and traces of them.

    Attributes:
        path: The log.
        made: What the last trace came to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sites, self._records = [{"kind": 0}], []
        self.host(event(0, 0, value=77.0))

    def site(self, kind: int, label: str = "", **more: Any) -> int:
        """A site's number."""
        self._sites.append({"kind": kind, "label": label, **more})
        return len(self._sites) - 1

    def host(self, *events: bytes, **state: Any) -> None:
        """Events of the structure ring."""
        self._records.append((STRUCTURE_TAG, b"".join(events), state))

    def values(self, *events: bytes) -> None:
        """Events of the value ring."""
        self._records.append((VALUES_TAG, b"".join(events), {}))

    def write(self, most: int = 1 << 20, **facts: Any) -> None:
        """Write the log."""
        head = {**this_process(), "pid": 77, "name": "made", "wall_ns": WALL, "now_ns": NOW}
        self.path.unlink(missing_ok=True)
        writer = LogWriter(self.path, {**head, **facts}, most, False, pytest.fail)
        writer.rows({"sites": self._sites})
        for record_ in self._records:
            writer.events(*record_)
        writer.rows({"dropped": writer.dropped})
        writer.close()

    def trace(self, most: int = 1 << 20, **facts: Any) -> Trace:
        """The trace of a log of these events."""
        self.write(most, **facts)
        to = self.path.with_suffix(".pftrace")
        self.made = make(TraceLog(self.path), to)
        return open_trace(to)

    def steps(self, n: int, since: int = 0, ns: int = 1000) -> None:
        """Steps of training, one behind the other, with a loader that ends after them."""
        if len(self._sites) == 1:
            for kind in (k.MADE, k.LOADING, k.FORWARD, k.BACKWARD, k.OPTIMIZER):
                self.site(kind)
            self.host(event(1, since, 5, what=9))
        for at in range(since + 10, since + 10 + n * ns, ns):
            self.host(
                event(2, at, 100, 4.0, what=5),
                event(3, at + 200, 200, 4.0, what=6, flags=7),
                event(4, at + 500, 300, 0.5),
                event(5, at + 850, 100, what=9),
            )
        self.host(event(2, since + 10 + n * ns, 20, what=5, flags=k.ENDED))


def event(site, start, ns=0, value=NAN, what=0, thread=1, flags=0):
    """An event at ``start`` ns from the beginning."""
    return EVENT.pack(NOW + start, value, what, site, thread, ns | flags << 56)


@pytest.fixture
def making(tmp_path):
    """Made logs and their traces."""
    return Making(tmp_path / "made.log")


def row(trace: Trace, name: str) -> list[Any]:
    """The spans of a row by its name."""
    return [one for thread in trace.threads if thread.name == name for one in thread.slices]


def spoilt(data: bytes, chosen: random.Random, since: int) -> bytes:
    """``data`` with three bits that are wrong."""
    broken = bytearray(data)
    for _ in range(3):
        broken[chosen.randrange(since, len(data))] ^= 1 << chosen.randrange(8)
    return bytes(broken)
