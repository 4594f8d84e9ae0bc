"""Fakes for the monitors: an overseer whose timers a test ticks, psutil, and NVML."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.clock import FakeClock
from overseer.errors import Problem
from overseer.scheduler import Scheduler

GIB = 1 << 30


class FakeTimer:
    """What ``ov.every`` returns: open between enter and exit, called only by ``ov.tick``."""

    def __init__(self, seconds: float, fn: Any, first: float) -> None:
        self.seconds, self.fn, self.first = seconds, fn, first
        self.open = False

    def __enter__(self) -> FakeTimer:
        self.open = True
        return self

    def __exit__(self, *exc: object) -> None:
        self.open = False


class FakeOverseer:
    """The public names that monitors use, with the real scheduler and no threads."""

    def __init__(self) -> None:
        names = ["init", "parse_args", "load_script", "run_script", "finalize"]
        self._scheduler = Scheduler(names, args=(self,), report=self.report)
        self.phases = self._scheduler.phases
        self.clock = FakeClock()
        self.summary: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.timers: list[FakeTimer] = []
        self.options = SimpleNamespace()

    def require(self, *instruments: Any) -> None:
        for instrument in instruments:
            self._scheduler.require(instrument)

    def every(self, seconds: float, fn: Any, first: float = 0.2) -> FakeTimer:
        self.timers.append(FakeTimer(seconds, fn, first))
        return self.timers[-1]

    def give(self, **event: Any) -> None:
        self.events.append(event)

    def report(self, problem: Problem) -> None:
        self.problems.append(problem)

    def walk_to_script(self) -> None:
        """End the phases up to the script's first line."""
        for name in ("init", "parse_args", "load_script"):
            phase = getattr(self.phases, name)
            if phase.pending:
                self._scheduler.end(phase)

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass, then call every open timer once."""
        self.clock.advance(seconds)
        for timer in self.timers:
            if timer.open:
                timer.fn()

    def end_script(self, exception: BaseException | None = None) -> None:
        self._scheduler.end(self.phases.run_script, exception=exception)

    def given(self, key: str) -> list[Any]:
        return [event[key] for event in self.events if key in event]


@pytest.fixture
def ov() -> FakeOverseer:
    return FakeOverseer()


class FakePsutil(SimpleNamespace):
    """psutil with numbers that a test sets; ``calls`` counts what was read."""

    class Error(Exception):
        pass

    class NoSuchProcess(Error):
        pass

    class AccessDenied(Error):
        pass

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.memory = SimpleNamespace(used=3 * GIB, total=16 * GIB, available=12 * GIB)
        self.times = CpuTimes(10.0, 5.0, 85.0)
        self.disk: Any = SimpleNamespace(
            read_count=10,
            write_count=20,
            read_bytes=1000,
            write_bytes=2000,
            read_time=5,
            write_time=6,
            busy_time=7,
        )
        self.network: Any = SimpleNamespace(
            bytes_sent=1,
            bytes_recv=2,
            packets_sent=3,
            packets_recv=4,
            errin=5,
            errout=6,
            dropin=7,
            dropout=8,
        )

    def virtual_memory(self) -> Any:
        self.calls.append("virtual_memory")
        return self.memory

    def cpu_times(self) -> Any:
        self.calls.append("cpu_times")
        return self.times

    def disk_io_counters(self) -> Any:
        self.calls.append("disk_io_counters")
        if isinstance(self.disk, Exception):
            raise self.disk
        return self.disk

    def net_io_counters(self) -> Any:
        self.calls.append("net_io_counters")
        return self.network


class CpuTimes(tuple[float, ...]):
    """A named tuple as psutil makes it where there is no iowait: user, system, idle."""

    def __new__(cls, user: float, system: float, idle: float) -> CpuTimes:
        return super().__new__(cls, (user, system, idle))

    @property
    def idle(self) -> float:
        return self[2]


@pytest.fixture
def psutil(monkeypatch: pytest.MonkeyPatch) -> FakePsutil:
    fake = FakePsutil()
    monkeypatch.setitem(sys.modules, "psutil", fake)
    return fake


class FakeGpu:
    """One GPU of :class:`FakeNvml`; a value may be an exception to raise."""

    def __init__(self, name: str = "NVIDIA Test", uuid: str = "GPU-0", **values: Any) -> None:
        defaults = {
            "utilisation": 50,
            "used": 1024 * 1024 * 1024,
            "total": 4 * 1024 * 1024 * 1024,
            "temperature": 40,
            "power": 100_000,
            "limit": 300_000,
            "sm": 1500,
            "mem": 2000,
            "throttle": 0,
        }
        self.name, self.uuid = name, uuid
        self.values = {**defaults, **values}
        self.board: FakeGpu | None = None
        self.instance = 0


class FakeNvml(SimpleNamespace):
    """The module ``pynvml`` with the devices that a test puts into ``gpus``."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    nvmlMemory_v2 = 0x02000028
    Gpu = FakeGpu

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__(f"NVML code {value}")
            self.value = value

    def __init__(self, *gpus: FakeGpu) -> None:
        super().__init__()
        self.gpus = list(gpus)
        self.instances: dict[str, FakeGpu] = {}
        self.init_error: int | None = None
        self.calls: list[str] = []

    def fail(self, code: int) -> Exception:
        """An NVML error to put in the place of a value."""
        return self.NVMLError(code)

    def _value(self, gpu: FakeGpu, name: str) -> Any:
        self.calls.append(name)
        value = gpu.values[name]
        if isinstance(value, BaseException):
            raise value
        return value

    def nvmlInit(self) -> None:
        self.calls.append("init")
        if self.init_error is not None:
            raise self.NVMLError(self.init_error)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        gpu = self.gpus[index]
        if "open" in gpu.values:
            self._value(gpu, "open")
        return gpu

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        if uuid not in self.instances:
            raise self.NVMLError(6)
        return self.instances[uuid]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, gpu: FakeGpu) -> FakeGpu:
        assert gpu.board is not None
        return gpu.board

    def nvmlDeviceGetIndex(self, gpu: FakeGpu) -> int:
        return self.gpus.index(gpu)

    def nvmlDeviceGetGpuInstanceId(self, gpu: FakeGpu) -> int:
        return gpu.instance

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return gpu.name

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:
        return SimpleNamespace(gpu=self._value(gpu, "utilisation"), memory=0)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int | None = None) -> Any:
        return SimpleNamespace(used=self._value(gpu, "used"), total=self._value(gpu, "total"))

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:
        return int(self._value(gpu, "temperature"))

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        return int(self._value(gpu, "power"))

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        return int(self._value(gpu, "limit"))

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, clock: int) -> int:
        return int(self._value(gpu, {1: "sm", 2: "mem"}[clock]))

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu) -> int:
        return int(self._value(gpu, "throttle"))


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(FakeGpu())
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return fake
