"""A ``torch`` with GPUs, as strict as CUDA is: streams, events, contexts, captures, lost devices.

What each call may do, where, and what it says otherwise is torch 2.13's ``CUDAEvent.h`` and CUDA's
own rules for calls while a stream is captured (``cudaThreadExchangeStreamCaptureMode``).
"""

from __future__ import annotations

from contextlib import contextmanager
from struct import pack, unpack
from types import SimpleNamespace

GLOBAL, THREAD_LOCAL, RELAXED = range(3)


class Stream:
    """A queue of work on one device."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.device_index = gpu.index
        self.free_at = gpu.cuda.now

    def launch(self, ns):
        """Queue work; returns at once."""
        self.gpu.context = True
        self.free_at = max(self.free_at, self.gpu.cuda.now) + ns


class Gpu:
    """One device of the machine."""

    def __init__(self, cuda, index):
        self.cuda, self.index = cuda, index
        self.context = False
        self.allocated = 0
        self.stream = Stream(self)


class FakeCuda:
    """Stands for ``torch.cuda``.

    Args:
        gpus: How many there are; a tensor is on the first one.

    Attributes:
        now: The time, in nanoseconds, of the host and of the devices.
        thread: The thread that runs at present.
        broken: What has spoilt the graph that is being captured.
        lost: Every call fails.
        made: How many events have been made.
    """

    def __init__(self, gpus=1):
        self.now = 5_000_000_000
        self.gpus = [Gpu(self, index) for index in range(gpus)]
        self.gpus[0].context, self.gpus[0].allocated = True, 1 << 30
        self.thread = "script"
        self.broken = []
        self.initialized = True
        self.lost = False
        self.made = 0
        self.current = {}
        self.modes = {}
        self._captured = None
        self.Event = lambda enable_timing=False: Event(self, enable_timing)

    def is_initialized(self):
        return self.initialized

    def device_count(self):
        return len(self.gpus)

    def memory_allocated(self, index):
        return self.gpus[index].allocated

    def set_device(self, index):
        self.gpus[index].context = True
        self.current[self.thread] = self.gpus[index].stream

    def current_stream(self, index=None):
        assert self.initialized, "voir has started the device"
        mine = self.current.get(self.thread, self.gpus[0].stream)
        return mine if index in (None, mine.device_index) else self.gpus[index].stream

    def is_current_stream_capturing(self):
        return self._captured is not None and self._captured[2] is self.current_stream()

    def synchronize(self, index=None):
        raise AssertionError("waits for all that the device has to do, for ever if it hangs")

    def exchange(self, mode):
        """``cuThreadExchangeStreamCaptureMode``."""
        before = self.modes.get(self.thread, GLOBAL)
        self.modes[self.thread] = mode
        return before

    @contextmanager
    def graph(self, mode=GLOBAL):
        """``torch.cuda.graph``: captures what this thread launches on a stream of its own."""
        outside = self.current_stream()
        inside = Stream(outside.gpu)
        self.current[self.thread] = inside
        self._captured = (self.thread, mode, inside)
        try:
            yield
        finally:
            self._captured = None
            self.current[self.thread] = outside

    def capturing(self, stream):
        return self._captured is not None and self._captured[2] is stream

    def unsafe(self, call):
        """A call that a capture forbids: to the thread that captures, or to every one."""
        self.works()
        if self._captured is None or self.modes.get(self.thread, GLOBAL) == RELAXED:
            return
        thread, mode, _ = self._captured
        own = self.modes.get(self.thread, GLOBAL)
        if thread == self.thread or (mode == GLOBAL and own == GLOBAL):
            self.broken.append(call)
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def works(self):
        if self.lost:
            raise RuntimeError("CUDA error: unspecified launch failure")


class Event:
    """``torch.cuda.Event``: belongs to the device on which it was first recorded."""

    def __init__(self, cuda, enable_timing):
        assert enable_timing
        self.cuda = cuda
        cuda.made += 1
        self.device = None
        self.at = 0

    def record(self, stream=None):
        stream = stream or self.cuda.current_stream()
        self.cuda.works()
        if self.device is None:
            self.device = SimpleNamespace(type="cuda", index=stream.device_index)
        if self.device.index != stream.device_index:
            raise RuntimeError(
                f"Event device {self.device.index} does not match recording stream's device"
                f" {stream.device_index}."
            )
        if self.cuda.capturing(stream):
            self.cuda.broken.append("a node of voir's is in the graph")
        stream.gpu.context = True
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
