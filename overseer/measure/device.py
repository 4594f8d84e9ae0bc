"""Device clocks: boundaries are events in the script's own stream, read later, never waited for.

A mark is dropped into the stream where the script stands; the device passes it when the work
before it is done. The time between two marks is the device's own, so a host that runs ahead of
its device cannot turn compute into loading, nor one that waits for it loading into compute.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from ..clock import Clock

#: A point in a device's stream of work; each kind of device has its own.
Mark = Any


class LeftAlone(Exception):
    """A device is in use whose clock is left alone, for what it would do to the script."""


class Device(Protocol):
    """What the step model asks of a device; every method may raise when the device is lost.

    Attributes:
        name: What the run's record calls this clock.
    """

    name: str

    def mark(self) -> Mark | None:
        """Drop a mark where the script's stream stands; None when that can't be done now."""

    def done(self, mark: Mark) -> bool:
        """Whether the device has passed ``mark``; does not wait."""

    def elapsed_ns(self, first: Mark, last: Mark) -> int | None:
        """Device time between two marks that are done; None when they are two devices'."""

    def release(self, mark: Mark) -> None:
        """``mark`` will not be asked about again."""

    def wait(self, mark: Mark) -> None:
        """Let the device pass ``mark``; for the end of a run only.

        Raises:
            TimeoutError: It does not get there.
        """

    def aside(self) -> AbstractContextManager[object]:
        """Around all calls but ``mark``: the script may be capturing a graph meanwhile."""


class HostDevice:
    """The processor itself as a device: work is done when the script gets to the mark."""

    name = "perf_counter"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def mark(self) -> int:
        """The time now."""
        return self._clock.now_ns()

    def done(self, mark: int) -> bool:
        """Always: the processor is where the script is."""
        return True

    def elapsed_ns(self, first: int, last: int) -> int:
        """Host time between the marks."""
        return last - first

    def release(self, mark: int) -> None:
        """Nothing is kept."""

    def wait(self, mark: int) -> None:
        """Nothing to wait for."""

    def aside(self) -> AbstractContextManager[object]:
        """Nothing to spoil."""
        return nullcontext()


class FakeMark:
    """A point in a fake device's queue, passed at ``at_ns``."""

    def __init__(self, at_ns: int) -> None:
        self.at_ns = at_ns


class FakeDevice:
    """A device for tests: it works off a queue, so its marks complete late.

    Args:
        clock: The host's clock; the device has the same, but its own queue.
    """

    name = "fake events"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free_at = clock.now_ns()
        self.recorded = 0
        self.released = 0
        self.waited = 0
        self.lost = False

    def launch(self, seconds: float) -> None:
        """Queue work of ``seconds``; returns at once, like a kernel launch."""
        self._free_at = max(self._free_at, self._clock.now_ns()) + round(seconds * 1e9)

    def synchronize(self) -> float:
        """Seconds until the queue is empty: a test advances its clock by them."""
        return max(0, self._free_at - self._clock.now_ns()) / 1e9

    def mark(self) -> FakeMark:
        """A mark that completes when all that was launched before it has."""
        self._check()
        self.recorded += 1
        return FakeMark(max(self._free_at, self._clock.now_ns()))

    def done(self, mark: FakeMark) -> bool:
        """Whether the queue has got to the mark."""
        self._check()
        return mark.at_ns <= self._clock.now_ns()

    def elapsed_ns(self, first: FakeMark, last: FakeMark) -> int:
        """Time the device took from one mark to the other."""
        self._check()
        return last.at_ns - first.at_ns

    def release(self, mark: FakeMark) -> None:
        """Count it."""
        self.released += 1

    def wait(self, mark: FakeMark) -> None:
        """Count it: only the end of a run may wait."""
        self._check()
        self.waited += 1

    def aside(self) -> AbstractContextManager[object]:
        """Nothing to spoil."""
        return nullcontext()

    def _check(self) -> None:
        if self.lost:
            raise RuntimeError("device lost")
