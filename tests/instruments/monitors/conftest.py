"""A run that a test ticks, and NVIDIA's library as data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.errors import Problem
from tests.clocks import FakeClock

MIB = 1 << 20


class Phase(str):
    """A phase; a higher priority is no matter here."""

    def __call__(self, priority: float = 0) -> Phase:
        return self


class FakeOverseer:
    """What monitors use of an overseer: phases, a timer that a test ticks, events, problems."""

    def __init__(self) -> None:
        names = ("init", "parse_args", "load_script", "run_script")
        self.phases = SimpleNamespace(**{name: Phase(name) for name in names})
        self.clock = FakeClock(now_ns=10**9)
        self.measuring = SimpleNamespace(stepped=lambda: None)
        self.summary: dict[str, Any] = {}
        self.environ: dict[str, str] = {}
        self.context = SimpleNamespace(joins="")
        self.events: list[dict[str, Any]] = []
        self.problems: list[Problem] = []
        self.report = self.problems.append
        self.timers: list[Any] = []
        self._required: list[Any] = []
        self._waiting: list[tuple[Phase, Iterator[Phase]]] = []
        self._done: set[Phase] = set()

    def require(self, *instruments: Any) -> None:
        for one in instruments:
            if one not in self._required:
                self._required.append(one)
                self._advance(one(self) or iter(()))

    def _advance(self, instrument: Iterator[Phase]) -> None:
        phase = next((phase for phase in instrument if phase not in self._done), None)
        if phase is not None:
            self._waiting.append((phase, instrument))

    def end(self, *phases: str) -> None:
        """End phases, in order."""
        for ended in map(Phase, phases):
            self._done.add(ended)
            waiting, self._waiting = self._waiting, []
            for phase, instrument in waiting:
                if phase == ended:
                    self._advance(instrument)
                else:
                    self._waiting.append((phase, instrument))

    def start(self, *instruments: Any) -> None:
        """Require instruments, and begin the script."""
        self.require(*instruments)
        self.end("init", "parse_args", "load_script")

    @contextmanager
    def every(self, seconds: float, fn: Any, first: float) -> Iterator[None]:
        timer = SimpleNamespace(seconds=seconds, fn=fn, first=first, open=True)
        self.timers.append(timer)
        yield
        timer.open = False

    def tick(self, seconds: float = 1.0, times: int = 1) -> None:
        """Let time pass, then call every open timer; so many times."""
        for _ in range(times):
            self.clock.advance(seconds)
            for timer in self.timers:
                if timer.open:
                    timer.fn()

    def publish(self, **event: Any) -> None:
        self.events.append(event)

    def given(self, key: str) -> list[Any]:
        return [event[key] for event in self.events if key in event]

    @property
    def slugs(self) -> list[str]:
        return [problem.slug for problem in self.problems]


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

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return _answer(self.gpus[index], "HandleByIndex") and self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:
        return self.instances[uuid]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> dict[str, Any]:
        return self.gpus[handle["board"]]

    def nvmlDeviceGetIndex(self, handle: Any) -> int:
        return self.gpus.index(handle)

    def __getattr__(self, name: str) -> Any:
        return lambda handle, *more: _answer(handle, name.removeprefix("nvmlDeviceGet"))


def _answer(handle: Any, name: str) -> Any:
    if isinstance(handle[name], Exception):
        raise handle[name]
    return handle[name]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(gpu())
    monkeypatch.setitem(sys.modules, "pynvml", fake)  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return fake
