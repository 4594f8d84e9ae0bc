"""A ``torch`` with GPUs, as strict as CUDA is: streams, events, contexts, captures, lost devices.

What each call may do, where, and what it says otherwise is torch 2.13's ``CUDAEvent.h`` and CUDA's
own rules for calls while a stream is captured (``cudaThreadExchangeStreamCaptureMode``).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from struct import pack, unpack
from types import SimpleNamespace

GLOBAL, THREAD_LOCAL, RELAXED = range(3)


class Stream:
    """A queue of work on one device."""

    def __init__(self, cuda, index):
        self.cuda, self.device_index, self.free_at = cuda, index, cuda.now

    def launch(self, ns):
        """Queue work; returns at once."""
        self.cuda.gpus[self.device_index].context = True
        self.free_at = max(self.free_at, self.cuda.now) + ns


class FakeCuda:
    """Stands for ``torch.cuda`` with two GPUs; a tensor is on the first one.

    Attributes:
        now: The time, in nanoseconds, of the host and of the devices.
        thread: The thread that runs at present.
        broken: What has spoilt the graph that is being captured.
        lost: Every call fails.
        made: How many events have been made.
        captured: By which thread, in which mode and on which stream a graph is being captured.
    """

    def __init__(self):
        self.now, self.thread, self.made = 5_000_000_000, "script", 0
        self.initialized, self.lost, self.broken, self.captured = True, False, [], None
        self.gpus = [SimpleNamespace(context=not n, allocated=(1 - n) << 30) for n in range(2)]
        self._streams = [Stream(self, n) for n in range(2)]
        self._current, self._modes = {}, {}
        self.Event = partial(Event, self)

    def is_initialized(self):
        return self.initialized

    def device_count(self):
        return len(self.gpus)

    def memory_allocated(self, index):
        return self.gpus[index].allocated

    def set_device(self, index):
        self.gpus[index].context = True
        self._current[self.thread] = self._streams[index]

    def current_stream(self, index=None):
        assert self.initialized, "voir has started the device"
        mine = self._current.get(self.thread, self._streams[0])
        return mine if index in (None, mine.device_index) else self._streams[index]

    def is_current_stream_capturing(self):
        return self.captured is not None and self.captured[2] is self.current_stream()

    def synchronize(self, index=None):
        raise AssertionError("waits for all that the device has to do, for ever if it hangs")

    def exchange(self, mode):
        """``cuThreadExchangeStreamCaptureMode``."""
        before, self._modes[self.thread] = self._modes.get(self.thread, GLOBAL), mode
        return before

    @contextmanager
    def graph(self, mode=GLOBAL):
        """``torch.cuda.graph``: captures what this thread launches on a stream of its own."""
        outside = self.current_stream()
        inside = self._current[self.thread] = Stream(self, outside.device_index)
        self.captured = self.thread, mode, inside
        try:
            yield
        finally:
            self.captured, self._current[self.thread] = None, outside

    def unsafe(self, call):
        """A call that a capture forbids: to the thread that captures, or to every one."""
        self.works()
        own = self._modes.get(self.thread, GLOBAL)
        if self.captured is not None and own != RELAXED:
            thread, mode, _ = self.captured
            if thread == self.thread or mode == own == GLOBAL:
                self.broken.append(call)
                raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def works(self):
        if self.lost:
            raise RuntimeError("CUDA error: unspecified launch failure")


class Event:
    """``torch.cuda.Event``: belongs to the device on which it was first recorded."""

    def __init__(self, cuda, enable_timing):
        assert enable_timing
        self.cuda, self.device, self.at = cuda, None, 0
        cuda.made += 1

    def record(self, stream=None):
        stream = stream or self.cuda.current_stream()
        self.cuda.works()
        index = stream.device_index
        self.device = self.device or SimpleNamespace(type="cuda", index=index)
        if self.device.index != index:
            raise RuntimeError(f"Event device {self.device.index} does not match stream's {index}.")
        if self.cuda.captured is not None and self.cuda.captured[2] is stream:
            self.cuda.broken.append("a node of voir's is in the graph")
        self.cuda.gpus[index].context = True
        self.at = max(stream.free_at, self.cuda.now)

    def query(self):
        self.cuda.unsafe("cudaEventQuery")
        return self.device is None or self.at <= self.cuda.now

    def elapsed_time(self, end):
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        if self.device.index != end.device.index:
            raise RuntimeError("CUDA error: invalid resource handle")
        return unpack("f", pack("f", (end.at - self.at) / 1e6))[0]


def fake_torch(cuda, kind="cuda"):
    """A torch that has it."""
    accelerator = SimpleNamespace(current_accelerator=lambda: SimpleNamespace(type=kind))
    contexts = SimpleNamespace(_cuda_hasPrimaryContext=lambda index: cuda.gpus[index].context)
    return SimpleNamespace(Event=object, accelerator=accelerator, _C=contexts, **{kind: cuda})
