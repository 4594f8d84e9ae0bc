"""Device clocks: boundaries are events in the script's own stream, read later, never waited for.

A mark is dropped into the stream where the script stands; the device passes it when the work
before it is done. The time between two marks is the device's own, so a host that runs ahead of
its device cannot turn compute into loading, nor one that waits for it loading into compute.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ..clock import Clock

#: A point in a device's stream of work; each kind of device has its own.
Mark = Any


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

    def elapsed_ns(self, first: Mark, last: Mark) -> int:
        """Device time between two marks that are done."""

    def release(self, mark: Mark) -> None:
        """``mark`` will not be asked about again."""

    def wait(self) -> None:
        """Let the device pass every mark; for the end of a run only."""


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

    def wait(self) -> None:
        """Nothing to wait for."""


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

    def wait(self) -> None:
        """Count it: only the end of a run may wait."""
        self._check()
        self.waited += 1

    def _check(self) -> None:
        if self.lost:
            raise RuntimeError("device lost")


class TorchDevice:
    """The accelerator torch names, by timing events on the stream the script is using.

    Args:
        torch: The torch module, which the script has imported; this module never imports it.
        kind: ``"cuda"``, ``"xpu"``, ... as ``torch.accelerator.current_accelerator`` says.
    """

    def __init__(self, torch: Any, kind: str) -> None:
        self.kind = kind
        self.name = f"{kind} events"
        module = getattr(torch, kind, None)
        own = getattr(module, "Event", None)
        self._event: Callable[[], Any] = (
            (lambda: own(enable_timing=True))
            if own is not None
            else (lambda: torch.Event(device=kind, enable_timing=True))
        )
        self._capturing: Callable[[], bool] | None = getattr(
            module, "is_current_stream_capturing", None
        )
        self._synchronize = getattr(module, "synchronize", None) or torch.accelerator.synchronize
        self._pool: deque[Any] = deque(maxlen=4096)  # Making an event costs more than recording.

    def mark(self) -> Any:
        """An event recorded on the current stream; None while a CUDA graph is being captured."""
        if self._capturing is not None and self._capturing():
            return None  # A record inside the capture would become part of the script's graph.
        event = self._pool.pop() if self._pool else self._event()
        event.record()
        return event

    def done(self, mark: Any) -> bool:
        """Whether the stream has passed the event."""
        return bool(mark.query())

    def elapsed_ns(self, first: Any, last: Any) -> int:
        """Milliseconds as torch gives them (resolution about half a microsecond), in ns."""
        return round(float(first.elapsed_time(last)) * 1e6)

    def release(self, mark: Any) -> None:
        """Keep the event for the next mark."""
        self._pool.append(mark)

    def wait(self) -> None:
        """Wait for all of the device's work; the script has ended by now."""
        self._synchronize()


def find_device() -> TorchDevice | None:
    """The accelerator the script is using, or None; imports nothing and starts no device.

    A machine may have an accelerator that the script does not use: one counts as used when its
    context exists (CUDA, ROCm, XPU, ...) or, where torch can't tell, when memory was taken on it.
    """
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch, "Event", None) is None:
        return None  # Not imported, still importing, or older than torch.Event (2.4).
    kind = _accelerator(torch)
    return TorchDevice(torch, kind) if kind is not None and _in_use(torch, kind) else None


def _accelerator(torch: Any) -> str | None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        found = accelerator.current_accelerator()
        return None if found is None else str(found.type)
    return "cuda" if torch.cuda.is_available() else None


def _in_use(torch: Any, kind: str) -> bool:
    module = getattr(torch, kind, None)
    for name in ("is_initialized", "_is_initialized"):
        if hasattr(module, name):
            return bool(getattr(module, name)())
    taken = getattr(module, "memory_allocated", None) or getattr(
        module, "current_allocated_memory", None
    )
    return bool(taken and taken())
