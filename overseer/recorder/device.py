"""Times on the accelerator that a script uses: marks in its own stream, read when they are passed.

A mark is a timing event of the device's, dropped into the current stream at a boundary of a span.
The device passes it when the work before it is done; what lies between two marks took the device
so long, however far the script runs ahead. The recorder calls :meth:`Marks.mark` at boundaries, a
timer :meth:`Marks.tick`, which records the times as DEVICE events.

Nothing here may show in the script: no context on a device that it does not use, no node in a graph
that it captures, no call that spoils such a capture, no wait that outlasts the run.
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
#: A beginning so soon after another boundary shares its mark: nothing was launched between, ns.
SAME_NS = 10_000
#: Marks that may wait to be passed; with more, there are no further ones for the time being.
MOST_PENDING_MARKS = 1 << 16
#: How many marks are read before the script's thread gets a rest, in seconds.
READ_AT_ONCE, READING_REST_SECONDS = 256, 0.0005
#: How often, and every how many seconds, a device is asked at the end whether it is done.
ASKED, NAP_SECONDS = 5000, 0.001

# Asking a device while the script may be capturing a graph

#: The mode of a thread whose calls spoil no capture: meanwhile CUDA forbids many calls to all
#: threads, even to ask whether an event has passed, and fails the capture (pytorch#104487).
RELAXED = 2
#: Where a driver has the call that sets a thread's mode. The runtime's own takes a context.
_DRIVERS = (
    *(("cuThreadExchangeStreamCaptureMode", name) for name in ("libcuda.so.1", "nvcuda.dll")),
    *(
        ("hipThreadExchangeStreamCaptureMode", f"libamdhip64.so{version}")
        for version in ("", ".6", ".7")
    ),
)


@contextmanager
def harmless(exchange: Exchange | None) -> Iterator[None]:
    """Within, this thread's calls spoil no capture.

    Args:
        exchange: As :func:`find_exchange` found it; with None, they are as they are.
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
    """What sets the calling thread's mode; None where no driver is loaded that does."""
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
    """The accelerator that torch names, by timing events on the stream that the script is using.

    Args:
        torch: The torch module, which the script has imported.
        kind: ``"cuda"``, ``"xpu"``, ... as ``torch.accelerator.current_accelerator`` says.
        used: How much each device is used; None: not known.
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
        # A script that puts its model on cuda:1 need not make that the current device; a mark on
        # the current one would come too early, and take its first context.
        self._instead: dict[int, int] = {}
        if used and any(used):
            busiest = used.index(max(used))
            self._instead = {index: busiest for index, amount in enumerate(used) if not amount}
        # Making an event costs more than recording it; it is one device's for good.
        self._free: dict[int | None, deque[Any]] = {}

    def mark(self) -> Any:
        """An event recorded on the current stream; None while a graph is being captured."""
        if self._capturing is not None and self._capturing():
            return None  # It would become part of the script's graph.
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
        """Time between two marks that have been passed; None when they are two devices'."""
        return first.elapsed_time(last) * 1e6 if _index(first) == _index(last) else None

    def release(self, mark: Any) -> None:
        """Keep the event for the next mark on its device."""
        self._free.setdefault(_index(mark), deque(maxlen=4096)).append(mark)


def _index(event: Any) -> int | None:
    return getattr(getattr(event, "device", None), "index", None)


def find_device() -> Device | str | None:
    """The accelerator that the script is using; imports nothing and starts no device.

    A machine may have an accelerator that the script does not use: one counts as used when memory
    was taken on it, or, where torch cannot tell, when it has been started.

    Returns:
        Why it is left alone, where it is of a kind whose events would show in the script.
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
    """Whether the accelerator has been started; None where torch cannot tell."""
    for name in ("is_initialized", "_is_initialized"):
        if hasattr(module, name):
            return bool(getattr(module, name)())
    return None


def _used(torch: Any, kind: str, module: Any) -> list[int] | None:
    """Bytes on each device (where none are counted, 1 for a context); None: not known."""
    one = getattr(module, "current_allocated_memory", None)
    try:
        if one is not None:
            return [int(one())]
        devices = range(module.device_count())
        memory = [int(module.memory_allocated(index)) for index in devices]
        if any(memory) or kind != "cuda":
            return memory
        return [int(torch._C._cuda_hasPrimaryContext(index)) for index in devices]
    except Exception:  # The script's allocator may refuse; or torch has no such functions.
        return None


# Marks


class _Lane:
    """One thread's marks: the one that was passed last, and the spans that are open there."""

    __slots__ = ("at", "gap", "last", "open")

    def __init__(self) -> None:
        self.last: Any = None
        self.at = 0
        self.gap = float("nan")  # Nothing is known of the time before the first mark.
        self.open: list[list[float]] = []  # Start, own ns, ns before it.

    def passed(self, start: int, edge: int, depth: int, ns: float) -> tuple[int, float] | None:
        """Take in a mark, ``ns`` after the one before; returns times to tell: own, and before."""
        opened = self.open
        if not depth and edge != k.ENDS:
            self.gap += sum(inside + gap for _, inside, gap in opened)
            opened.clear()  # An exception has left them open.
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
    """Marks on the accelerator that the script uses, once it uses one.

    Args:
        report: Told, once, why steps are timed by the host's clock though a device is in use.
        find: Returns the device, why it is left alone, or None as long as there is none.

    Attributes:
        device: The device in use.
        why: Why the host's clock is used though there is one.
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
        """The name of the clock that times the steps; None: the host's."""
        return self.device.name if self.device is not None and self._told and not self.why else None

    def mark(self, thread: int, start: int, at: int, edge: int, depth: int) -> bool:
        """Drop a mark at a boundary; the recorder calls this in the script's thread.

        Args:
            thread: The thread's number.
            start: When the event began that the boundary is of.
            at: The time now.
            edge: ``BEGINS`` or ``ENDS`` of a span; ``PLAIN``: it nests with nothing.
            depth: How many spans are around it.

        Returns:
            Whether times will come.
        """
        event = None
        recent = self._recent.get(thread)
        if edge == k.BEGINS and recent is not None and at - recent[0] < SAME_NS:
            event = recent[1]
        elif self._failure is None and self.device is not None:
            try:
                event = self.device.mark()
            except Exception as error:  # The device is lost; the timer says so.
                self._failure = error
        if edge != k.ENDS and (event is None or len(self._pending) >= MOST_PENDING_MARKS):
            return False
        if event is not None:
            self._recent[thread] = at, event
        self._pending.append((thread, start, at, edge, depth, event))
        return True

    def tick(self) -> int:
        """Look for a device in use, and record what has arrived from it; for a timer's thread.

        Returns:
            How many marks and numbers are still on their way.
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
            self._give_up(f"failed ({said}); steps are timed by the host's from here on")
        return len(self._pending) + values.collect(lambda: harmless(self._exchange))

    def _look(self) -> None:
        found = self._find()
        if isinstance(found, str):
            self._give_up(
                f"is left alone ({found}); steps are timed by the host's: "
                "loading and compute are the script's time, not the device's"
            )
        elif found is not None:
            self.device, self._exchange = found, self._find_exchange()
            self._site = k.table.add(k.DEVICE, found.name)
            recorder.marker(MARKED_KINDS, self.mark)

    def _read(self) -> None:
        """Record the times of the marks that were passed, in order."""
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
                    # The script may have turned to another device.
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
        """Go on by the host's clock."""
        self.why = why
        recorder.marker(0, None)
        self._pending.clear()
        if self._site:
            recorder.put(k.STRUCTURE, k.DEVICE, self._site, 0, 0, 0.0, 0, 0)
        self._report(f"the device's clock {why}")

    def finish(self) -> None:
        """The script has ended: let the device come to its end, for five seconds at most.

        To wait in the driver would be for ever, at worst: a device may hang. A Ctrl-C ends the
        waiting, and what was measured is told all the same.
        """
        recorder.marker(0, None)
        why = f"had not come to its end {ASKED * NAP_SECONDS:g} s after the script's"
        try:
            for _ in range(ASKED):
                if not self.tick():
                    return
                self._sleep(NAP_SECONDS)
        except KeyboardInterrupt:
            why = "was still at work when waiting for it was interrupted"
        if self._pending:
            self._give_up(f"{why}; steps are timed by the host's")
