"""The accelerator that a script uses through torch, as a clock; torch is never imported for it.

Nothing here may show in the script: no context on a device it does not use, no node in a graph it
captures, no call that spoils such a capture, no wait that outlasts the run.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..capture import Exchange, find_exchange, harmless
from ..clock import sleep
from .device import LeftAlone

#: How often, and every how many seconds, a device is asked at the end of a run whether it is done.
#: One that hangs would not let a run end that was interrupted because it hangs.
ASKED, NAP_SECONDS = 5000, 0.001
#: Kinds whose events would show in the script, by torch's sources and those of its extensions.
LEFT_ALONE = {
    # MPSEventPool::elapsedTime commits all that was queued and waits for it, on the queue that
    # launches go through; and recording commits. It may also take short intervals for reversed.
    "mps": "reading its events waits for all of the device's work",
    # NPUEvent::elapsed_time, and query before, wait until the queue of launches is empty.
    "npu": "reading its events waits for all launches",
    # HPUEvent::record ends the graph that is being gathered, or waits for the launching threads.
    "hpu": "recording its events ends the graph that the script is gathering",
}


class TorchDevice:
    """The accelerator torch names, by timing events on the stream the script is using.

    Args:
        torch: The torch module, which the script has imported; this module never imports it.
        kind: ``"cuda"``, ``"xpu"``, ... as ``torch.accelerator.current_accelerator`` says.
        exchange: Sets the calling thread's capture mode and returns what it was; found by itself.
        sleep: Lets some seconds pass.
    """

    def __init__(
        self,
        torch: Any,
        kind: str,
        exchange: Exchange | None = None,
        sleep: Callable[[float], object] = sleep,
    ) -> None:
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
        self._stream: Callable[..., Any] | None = getattr(module, "current_stream", None)
        self._elsewhere = _elsewhere(_used(torch, kind))
        self._exchange = exchange or (find_exchange() if kind == "cuda" else None)
        self._sleep = sleep
        # Making an event costs more than recording; it is one device's for good.
        self._pools: defaultdict[int | None, deque[Any]] = defaultdict(lambda: deque(maxlen=4096))

    def mark(self) -> Any:
        """An event recorded on the current stream; None while a CUDA graph is being captured."""
        if self._capturing is not None and self._capturing():
            return None  # A record inside the capture would become part of the script's graph.
        if self._stream is None:
            event = self._fresh(None)
            event.record()
            return event
        stream = self._stream()
        index = getattr(stream, "device_index", None)
        if index in self._elsewhere:
            index = self._elsewhere[index]
            stream = self._stream(index)
        event = self._fresh(index)
        event.record(stream)
        return event

    def done(self, mark: Any) -> bool:
        """Whether the stream has passed the event."""
        return bool(mark.query())

    def elapsed_ns(self, first: Any, last: Any) -> int | None:
        """Milliseconds as torch gives them (resolution about half a microsecond), in ns."""
        if _index(first) != _index(last):
            return None
        return round(float(first.elapsed_time(last)) * 1e6)

    def release(self, mark: Any) -> None:
        """Keep the event for the next mark on its device."""
        self._pools[_index(mark)].append(mark)

    def wait(self, mark: Any) -> None:
        """Ask until the event has been passed: to wait in the driver would be for ever, at worst.

        Raises:
            TimeoutError: It has not been in about five seconds, or until a Ctrl-C: the script has
                ended, and what was measured is still to be told.
        """
        for _ in range(ASKED):
            if self.done(mark):
                return
            try:
                self._sleep(NAP_SECONDS)
            except KeyboardInterrupt:
                why = "it was still at work when waiting for it was interrupted"
                raise TimeoutError(why) from None
        seconds = ASKED * NAP_SECONDS
        raise TimeoutError(f"it was still at work {seconds:g} s after the end of the script")

    def aside(self) -> AbstractContextManager[object]:
        """Around questions: the script may be capturing a graph."""
        return harmless(self._exchange)

    def _fresh(self, index: int | None) -> Any:
        try:
            return self._pools[index].pop()
        except IndexError:
            return self._event()


def _index(event: Any) -> int | None:
    """The number of the device that an event belongs to; None where there is one only."""
    return getattr(getattr(event, "device", None), "index", None)


def _elsewhere(used: list[int] | None) -> dict[int, int]:
    """For each device that the script has nothing on, the one that it has the most on.

    A script that puts its model on ``cuda:1`` need not make that the current device; a mark on the
    current one would then come too early, and take hundreds of megabytes for its first context.
    """
    if not used or not any(used):
        return {}
    busiest = used.index(max(used))
    return {index: busiest for index, taken in enumerate(used) if not taken}


def find_device() -> TorchDevice | None:
    """The accelerator the script is using, or None; imports nothing and starts no device.

    A machine may have an accelerator that the script does not use: one counts as used when its
    context exists (CUDA, ROCm, XPU, ...), where torch can tell, or memory was taken on it.

    Raises:
        LeftAlone: It is of a kind whose events cannot be used without a trace in the script.
    """
    torch = sys.modules.get("torch")
    kind = None if torch is None else _accelerator(torch)
    if kind is None or not _in_use(torch, kind):
        return None
    if kind in LEFT_ALONE:
        raise LeftAlone(f"{kind}: {LEFT_ALONE[kind]}")
    return TorchDevice(torch, kind)


def _accelerator(torch: Any) -> str | None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        found = accelerator.current_accelerator()
        return None if found is None else str(found.type)
    # Before torch 2.6; to ask whether CUDA is available would start its driver.
    return next((kind for kind in ("cuda", "xpu") if _is_initialized(torch, kind)), None)


def _is_initialized(torch: Any, kind: str) -> bool | None:
    """Whether the accelerator has been started; None where torch can't tell."""
    module = getattr(torch, kind, None)
    for name in ("is_initialized", "_is_initialized"):
        if hasattr(module, name):
            return bool(getattr(module, name)())
    return None


def _in_use(torch: Any, kind: str) -> bool:
    started = _is_initialized(torch, kind)
    if started is False:
        return False
    used = _used(torch, kind)
    return bool(started) if used is None else any(used)


def _used(torch: Any, kind: str) -> list[int] | None:
    """How much each device is used, in bytes of tensors; None where that can't be told.

    Where there are none by the count, for they may come from an allocator that does not count, it
    is 1 for a device that has a context.
    """
    module = getattr(torch, kind, None)
    one = getattr(module, "current_allocated_memory", None)
    try:
        if one is not None:
            return [int(one())]
        devices = range(module.device_count())  # type: ignore[union-attr]
        memory = [int(module.memory_allocated(index)) for index in devices]  # type: ignore[union-attr]
        if any(memory) or kind != "cuda":
            return memory
        return [int(torch._C._cuda_hasPrimaryContext(index)) for index in devices]
    except Exception:  # Such an allocator may refuse; and this torch may have no such functions.
        return None
