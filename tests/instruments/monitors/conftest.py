"""A run that a test ticks, and NVIDIA's library as data."""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.errors import Problem
from tests.clocks import FakeClock

MIB = 1 << 20


class Phase:
    """A phase; a higher priority is no matter here."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, priority: float = 0) -> Phase:
        return self


class FakeOverseer:
    """What monitors use of an overseer: phases, a timer that a test ticks, events, problems."""

    def __init__(self) -> None:
        names = ("init", "parse_args", "load_script", "run_script")
        self.phases = SimpleNamespace(**{name: Phase() for name in names})
        self.clock = FakeClock(now_ns=10**9)
        self.summary: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.timers: list[Any] = []
        self._required: list[Any] = []
        self._waiting: list[tuple[Generator[Any, Any, None], Phase]] = []

    def require(self, *instruments: Any) -> None:
        for one in instruments:
            if one not in self._required:
                self._required.append(one)
                result = one(self)
                if isinstance(result, Generator):
                    self._advance(result)

    def _advance(self, generator: Generator[Any, Any, None]) -> None:
        for phase in generator:
            if not phase.done:
                self._waiting.append((generator, phase))
                return

    def end(self, *names: str) -> None:
        """End phases, in order."""
        for name in names:
            ended = getattr(self.phases, name)
            ended.done = True
            waiting = [generator for generator, phase in self._waiting if phase is ended]
            self._waiting = [each for each in self._waiting if each[1] is not ended]
            for generator in waiting:
                self._advance(generator)

    def start(self, *instruments: Any) -> None:
        """Require instruments, and begin the script."""
        self.require(*instruments)
        self.end("init", "parse_args", "load_script")

    def every(self, seconds: float, fn: Any, first: float) -> Any:
        timer = Timer(seconds, fn, first)
        self.timers.append(timer)
        return timer

    def tick(self, seconds: float = 1.0, times: int = 1) -> None:
        """Let time pass, then call every open timer; so many times."""
        for _ in range(times):
            self.clock.advance(seconds)
            for timer in self.timers:
                if timer.open:
                    timer.fn()

    def publish(self, **event: Any) -> None:
        self.events.append(event)

    def report(self, problem: Problem) -> None:
        self.problems.append(problem)

    def given(self, key: str) -> list[Any]:
        return [event[key] for event in self.events if key in event]

    @property
    def slugs(self) -> list[str]:
        return [problem.slug for problem in self.problems]


class Timer:
    """What ``ov.every`` returns."""

    def __init__(self, seconds: float, fn: Any, first: float) -> None:
        self.seconds, self.fn, self.first, self.open = seconds, fn, first, False

    def __enter__(self) -> Timer:
        self.open = True
        return self

    def __exit__(self, *exc: object) -> None:
        self.open = False


@pytest.fixture
def ov() -> FakeOverseer:
    return FakeOverseer()


class NVMLError_Test(Exception):
    """An error of NVML's; the library makes a class for each code."""


def gpu(uuid: str = "GPU-0", **changed: Any) -> dict[str, Any]:
    """A GPU: what each call of NVML's answers; an exception is raised."""
    return {
        "Name": "NVIDIA Test",
        "UUID": uuid,
        "HandleByIndex": True,
        "UtilizationRates": SimpleNamespace(gpu=50),
        "MemoryInfo": SimpleNamespace(used=1024 * MIB, total=4096 * MIB),
        "Temperature": 40,
        "PowerUsage": 100_000,
        "EnforcedPowerLimit": 300_000,
        "ClockInfo": 1500,
        "CurrentClocksEventReasons": 0,
        **changed,
    }


class FakeNvml:
    """The module ``pynvml`` with the devices that a test puts into ``gpus``."""

    nvmlMemory_v2 = 2

    def __init__(self, *gpus: dict[str, Any]) -> None:
        self.gpus = list(gpus)
        self.instances: dict[str, dict[str, Any]] = {}
        self.init: Exception | None = None
        self.calls: list[str] = []

    def nvmlInit(self) -> None:
        self.calls.append("Init")
        if self.init is not None:
            raise self.init

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        self._answer(self.gpus[index], "HandleByIndex")
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:
        return self.instances[uuid]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> dict[str, Any]:
        return self.gpus[handle["board"]]

    def nvmlDeviceGetIndex(self, handle: Any) -> int:
        return self.gpus.index(handle)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)
        return lambda handle, *more: self._answer(handle, name.removeprefix("nvmlDeviceGet"))

    def _answer(self, handle: Any, name: str) -> Any:
        self.calls.append(name)
        answer = handle[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(gpu())
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return fake
