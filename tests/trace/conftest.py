"""Traces made in this process, and Perfetto's processor to read them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from overseer.clock import Clock
from overseer.errors import Problem
from overseer.trace.process import Process, this_process
from overseer.trace.recorder import recorder
from overseer.trace.tracks import local
from overseer.trace.writer import Writer

from .processor import Processor, running


@pytest.fixture(scope="session")
def processor() -> Iterator[Processor]:
    """Perfetto's trace processor; the tests that need it are skipped where it cannot be had."""
    with running() as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_is_traced_afterwards() -> Iterator[None]:
    """Leave no channel behind, no span open, and recording off."""
    yield
    assert not recorder.on
    recorder.channels.clear()
    vars(local).clear()
    local.__init__()  # type: ignore[misc]


class Tracing:
    """A trace being written.

    Attributes:
        path: Its file.
        problems: What the writer reported.
    """

    def __init__(self, path: Path, most: int, wanted: tuple[str, ...], ring: bool) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.process: Process = this_process("test", Clock())
        recorder.start(wanted)
        report = self.problems.append
        self.writer = Writer(str(path), self.process, recorder, most, report, ring)

    def flush(self) -> Tracing:
        """Write what has been recorded."""
        self.writer.flush()
        return self

    def end(self) -> bytes:
        """End the trace; what is in its file."""
        self.writer.close()
        recorder.stop()
        return self.path.read_bytes()


@pytest.fixture
def tracing(tmp_path: Path) -> Iterator[Callable[..., Tracing]]:
    """Begins a trace; it is ended when the test is over."""
    begun: list[Tracing] = []

    def begin(most: int = 1 << 24, wanted: tuple[str, ...] = ("*",), ring: bool = False) -> Tracing:
        begun.append(Tracing(tmp_path / f"{len(begun)}.pftrace", most, wanted, ring))
        return begun[-1]

    yield begin
    for one in begun:
        one.end()
