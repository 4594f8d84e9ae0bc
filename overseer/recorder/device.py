"""Measures time on the accelerator with timing events in the script's streams.

A mark is a timing event, recorded in the current stream at a boundary of a span. The time between
two marks is the device's time for the work between them, no matter how far ahead the host runs. The
recorder calls :meth:`Marks.mark` at boundaries; a timer calls :meth:`Marks.tick`, which records the
times as DEVICE events.

The script must not be affected: no context is created on a device that it does not use, no node is
added to a graph that it captures, no call invalidates such a capture, and no wait outlasts the run.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import contextmanager

from ..clock import sleep
from . import sites as k
from .choice import recorder
from .values import LEFT_ALONE, values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Exchange = Callable[[int], int]
    Boundary = tuple[int, int, int, int, int, Any]

#: Kinds whose boundaries are marked.
MARKED_KINDS = sum(1 << kind.number for kind in k.KINDS.values() if kind.timed)
#: A beginning within this time of the previous boundary shares its mark, as nothing was launched
#: in between; ns.
SAME_NS = 10_000
#: Maximum number of pending marks; no further ones are recorded until some have passed.
MOST_PENDING_MARKS = 1 << 16
#: Marks read at once, and the pause afterwards that lets the script's thread run, in seconds.
READ_AT_ONCE, READING_REST_SECONDS = 256, 0.0005
#: Maximum number of queries at the end for whether the device is done, and their interval.
ASKED, NAP_SECONDS = 5000, 0.001

# Querying a device while the script may be capturing a graph

#: Capture mode of a thread whose calls never invalidate a capture. In other modes CUDA forbids many
#: calls to all threads during a capture, even event queries, and fails the capture
#: (pytorch#104487).
RELAXED = 2
#: Driver functions that set a thread's capture mode. The runtime's version creates a context.
_DRIVERS = (
    *(("cuThreadExchangeStreamCaptureMode", name) for name in ("libcuda.so.1", "nvcuda.dll")),
    *(
        ("hipThreadExchangeStreamCaptureMode", f"libamdhip64.so{version}")
        for version in ("", ".6", ".7")
    ),
)


@contextmanager
def harmless(exchange: Exchange | None) -> Iterator[None]:
    """Within the context, calls of this thread do not invalidate a graph capture.

    Args:
        exchange: The result of :func:`find_exchange`; None does nothing.
    """
    if exchange is None:
        yield
        return
    before = exchange(RELAXED)
    try:
        yield
    finally:
        exchange(before)


def find_exchange() -> Exchange | None:
    """Find the function that sets the calling thread's capture mode; None without a driver."""
    import ctypes

    for name, library in _DRIVERS:
        try:
            call = getattr(ctypes.CDLL(library, mode=getattr(os, "RTLD_NOLOAD", 0)), name)
        except (OSError, AttributeError):
            continue

        def exchange(mode: int, call: Callable[[object], int] = call) -> int:
            held = ctypes.c_int(mode)
            call(ctypes.byref(held))
            return held.value

        return exchange
    return None


# The device


class Device:
    """Timing events on an accelerator's current stream.

    Args:
        torch: The torch module, imported by the script.
        kind: Type of ``torch.accelerator.current_accelerator``: ``"cuda"``, ``"xpu"``, ...
        used: Bytes in use on each device; None if unknown.
    """

    def __init__(self, torch: Any, kind: str, used: list[int] | None) -> None:
        self.name = f"{kind} events"
        module = getattr(torch, kind, None)
        own = getattr(module, "Event", None)
        self._event: Callable[[], Any] = (
            (lambda: own(enable_timing=True))
            if own is not None
            else (lambda: torch.Event(device=kind, enable_timing=True))
        )
        self._capturing = getattr(module, "is_current_stream_capturing", None)
        self._stream = getattr(module, "current_stream", None)
        # A script may use cuda:1 without making it the current device. A mark on the current one
        # would pass too early, and create a context there.
        self._instead: dict[int, int] = {}
        if used and any(used):
            busiest = used.index(max(used))
            self._instead = {index: busiest for index, amount in enumerate(used) if not amount}
        # Events are reused, because creating one costs more than recording it.
        self._free: dict[int | None, deque[Any]] = {}

    def mark(self) -> Any:
        """Record an event on the current stream; None while a graph is being captured."""
        if self._capturing is not None and self._capturing():
            return None  # The event would become part of the script's graph.
        stream = self._stream() if self._stream is not None else None
        index = getattr(stream, "device_index", None)
        if index in self._instead and self._stream is not None:
            index = self._instead[index]
            stream = self._stream(index)
        free = self._free.get(index)
        event = free.pop() if free else self._event()
        event.record(*(() if stream is None else (stream,)))
        return event

    def elapsed_ns(self, first: Any, last: Any) -> float | None:
        """Time between two passed marks; None if they are on different devices."""
        return first.elapsed_time(last) * 1e6 if _index(first) == _index(last) else None

    def release(self, mark: Any) -> None:
        """Keep the event for reuse on its device."""
        self._free.setdefault(_index(mark), deque(maxlen=4096)).append(mark)


def _index(event: Any) -> int | None:
    return getattr(getattr(event, "device", None), "index", None)


def find_device() -> Device | str | None:
    """Find the accelerator that the script uses; imports nothing and initializes no device.

    An accelerator counts as used once memory is allocated on it, or, if torch does not report that,
    once it is initialized.

    Returns:
        The device; the reason, for a type in :data:`LEFT_ALONE`; None if no device is in use.
    """
    torch = sys.modules.get("torch")
    accelerator, kind = getattr(torch, "accelerator", None), None
    if accelerator is not None:
        found = accelerator.current_accelerator()
        kind = None if found is None else str(found.type)
    elif torch is not None:  # Before torch 2.6.
        kind = next((one for one in ("cuda", "xpu") if _started(getattr(torch, one, None))), None)
    if torch is None or kind is None:
        return None
    module = getattr(torch, kind, None)
    started = _started(module)
    if started is False:
        return None
    used = _used(torch, kind, module)
    if not (bool(started) if used is None else any(used)):
        return None
    return f"{kind}: {LEFT_ALONE[kind]}" if kind in LEFT_ALONE else Device(torch, kind, used)


def _started(module: Any) -> bool | None:
    """True if the accelerator is initialized; None if torch does not report it."""
    for name in ("is_initialized", "_is_initialized"):
        if hasattr(module, name):
            return bool(getattr(module, name)())
    return None


def _used(torch: Any, kind: str, module: Any) -> list[int] | None:
    """Bytes allocated on each device, or 1 for a context if none are; None if unknown."""
    one = getattr(module, "current_allocated_memory", None)
    try:
        if one is not None:
            return [int(one())]
        devices = range(module.device_count())
        memory = [int(module.memory_allocated(index)) for index in devices]
        if any(memory) or kind != "cuda":
            return memory
        return [int(torch._C._cuda_hasPrimaryContext(index)) for index in devices]
    except Exception:  # A custom allocator may not support it, or torch lacks the functions.
        return None


# Marks


class _Lane:
    """A thread's last passed mark, and the spans open at it."""

    __slots__ = ("at", "gap", "last", "open")

    def __init__(self) -> None:
        self.last: Any = None
        self.at = 0
        self.gap = float("nan")  # The time before the first mark is unknown.
        self.open: list[list[float]] = []  # Start, own ns, ns before it.

    def passed(self, start: int, edge: int, depth: int, ns: float) -> tuple[int, float] | None:
        """Process a mark ``ns`` after the previous one; returns own time and the gap before it."""
        opened = self.open
        if not depth and edge != k.ENDS:
            self.gap += sum(inside + gap for _, inside, gap in opened)
            opened.clear()  # Left open by an exception.
        if opened:
            opened[-1][1] += ns
        else:
            self.gap += ns
        if edge == k.BEGINS:
            opened.append([start, 0.0, self.gap])
            self.gap = 0.0
            return None
        if edge == k.ENDS:
            own = 0.0
            while opened:
                begun, inside, gap = opened.pop()
                own += inside
                if begun == start:
                    return round(own), gap
            return None
        gap, self.gap = self.gap, 0.0
        return 0, gap


class Marks:
    """Marks on the accelerator, from the moment the script uses one.

    Args:
        report: Called once with the reason if the host's clock is used despite a device.
        find: Returns the device, the reason it is left alone, or None without a device.

    Attributes:
        device: The device in use.
        why: Why the host's clock is used despite a device.
    """

    def __init__(
        self,
        report: Callable[[str], object],
        find: Callable[[], Device | str | None] = find_device,
        exchange: Callable[[], Exchange | None] = find_exchange,
        sleep: Callable[[float], object] = sleep,
    ) -> None:
        self._report, self._find, self._find_exchange, self._sleep = report, find, exchange, sleep
        self.device: Device | None = None
        self.why = ""
        self._exchange: Exchange | None = None
        self._pending: deque[Boundary] = deque()
        self._recent: dict[int, tuple[int, Any]] = {}
        self._lanes: dict[int, _Lane] = {}
        self._site = self._told = 0
        self._failure: Exception | None = None

    @property
    def clock(self) -> str | None:
        """Name of the clock that times the steps; None for the host's."""
        return self.device.name if self.device is not None and self._told and not self.why else None

    def mark(self, thread: int, start: int, at: int, edge: int, depth: int) -> bool:
        """Record a mark at a boundary; called by the recorder in the script's thread.

        Args:
            thread: The thread's number.
            start: Start of the boundary's event, ns.
            at: The current time, ns.
            edge: ``BEGINS`` or ``ENDS`` of a span; ``PLAIN`` for a mark.
            depth: Number of spans around it.

        Returns:
            Whether a DEVICE event will follow.
        """
        event = None
        recent = self._recent.get(thread)
        if edge == k.BEGINS and recent is not None and at - recent[0] < SAME_NS:
            event = recent[1]
        elif self._failure is None and self.device is not None:
            try:
                event = self.device.mark()
            except Exception as error:  # The device is lost; tick() reports it.
                self._failure = error
        if edge != k.ENDS and (event is None or len(self._pending) >= MOST_PENDING_MARKS):
            return False
        if event is not None:
            self._recent[thread] = at, event
        self._pending.append((thread, start, at, edge, depth, event))
        return True

    def tick(self) -> int:
        """Look for a device in use, and record the times that have arrived; for a timer thread.

        Returns:
            The number of pending marks and values.
        """
        try:
            if self.device is None and not self.why:
                self._look()
            with harmless(self._exchange):
                self._read()
        except Exception as error:
            self._failure = self._failure or error
        if self._failure is not None and not self.why:
            said = f"{type(self._failure).__name__}: {self._failure}"
            self._give_up(f"failed ({said}); from here on, steps are timed by the host's clock")
        return len(self._pending) + values.collect(lambda: harmless(self._exchange))

    def _look(self) -> None:
        found = self._find()
        if isinstance(found, str):
            self._give_up(
                f"is not used ({found}); steps are timed by the host's clock: "
                "loading and compute are host time, not device time"
            )
        elif found is not None:
            self.device, self._exchange = found, self._find_exchange()
            self._site = k.table.add(k.DEVICE, found.name)
            recorder.marker(MARKED_KINDS, self.mark)

    def _read(self) -> None:
        """Record the times of passed marks, in order."""
        pending, device, n = self._pending, self.device, 0
        while pending and device is not None and self._failure is None:
            thread, start, at, edge, depth, event = pending[0]
            if event is not None and not event.query():
                return
            pending.popleft()
            lane = self._lanes.get(thread) or self._lanes.setdefault(thread, _Lane())
            ns = 0.0
            if event is not None and event is not lane.last:
                if lane.last is not None:
                    passed = device.elapsed_ns(lane.last, event)
                    # None if the script has switched to another device.
                    ns = max(0.0, float(at - lane.at) if passed is None else passed)
                    device.release(lane.last)
                lane.last, lane.at = event, at
            times = lane.passed(start, edge, depth, ns)
            if times is not None:
                self._told += 1
                recorder.put(k.STRUCTURE, k.DEVICE, self._site, start, *times, thread, 0)
            n += 1
            if n % READ_AT_ONCE == 0:
                self._sleep(READING_REST_SECONDS)

    def _give_up(self, why: str) -> None:
        """Switch to the host's clock."""
        self.why = why
        recorder.marker(0, None)
        self._pending.clear()
        if self._site:
            recorder.put(k.STRUCTURE, k.DEVICE, self._site, 0, 0, 0.0, 0, 0)
        self._report(f"the device's clock {why}")

    def finish(self) -> None:
        """Wait for the device after the script has ended, for up to five seconds.

        Polls, because a wait in the driver never returns if the device hangs. Ctrl-C ends the wait;
        the times measured so far are kept.
        """
        recorder.marker(0, None)
        seconds = f"{ASKED * NAP_SECONDS:g} s"
        why = f"is not used: the device was still busy {seconds} after the script ended"
        try:
            for _ in range(ASKED):
                if not self.tick():
                    return
                self._sleep(NAP_SECONDS)
        except KeyboardInterrupt:
            why = "is not used: waiting for the busy device was interrupted"
        if self._pending:
            self._give_up(f"{why}; steps are timed by the host's clock")
