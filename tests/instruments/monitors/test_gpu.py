"""NVIDIA's devices through a library that is data: what is shown, absent, lost and said."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from instruments.monitors.gpu import Gpu
from instruments.monitors.nvml import throttle_words

from .conftest import MIB, FakeNvml, FakeOverseer, NVMLError_Test, gpu

FAILS = NVMLError_Test("Unknown Error")
FIGURES = [name for name in gpu() if name not in ("Name", "UUID", "HandleByIndex")]


def ran(ov: FakeOverseer, ticks: int, monitor: Gpu) -> list[list[int | str]]:
    """The devices that are in each event of a run."""
    ov.start(monitor)
    ov.tick(times=ticks)
    ov.end("run_script")
    return [list(event) for event in ov.given("gpudata")]


def test_events_have_the_keys_that_old_voirfiles_read_and_the_record_means_and_peaks(
    ov: FakeOverseer, nvml: FakeNvml
) -> None:
    ov.start(Gpu())
    ov.tick()
    nvml.gpus[0] |= {
        "UtilizationRates": SimpleNamespace(gpu=0),
        "MemoryInfo": SimpleNamespace(used=2048 * MIB, total=4096 * MIB),
        "CurrentClocksEventReasons": 0x4 | 0x1,
        "ClockInfo": 1000,
    }
    ov.tick()
    ov.end("run_script")
    named = {"name": "NVIDIA Test", "uuid": "GPU-0"}
    told = {"memory": [1024, 4096], "load": 0.5, "temperature": 40, "power": 100, "throttle": []}
    clocks = {"power_limit": 300, "clocks": {"sm": 1500, "mem": 1500}}
    assert ov.given("gpudata")[0] == {0: {**told, **clocks, **named}}
    clock = {"mean": 1250.0, "max": 1500, "min": 1000}
    assert ov.summary["devices"] == [
        {
            **named,
            "kind": "cuda",
            "index": 0,
            "utilisation": {"mean": 0.25, "max": 0.5},
            "memory": {"peak": 2048 * MIB, "total": 4096 * MIB},
            "power": {"mean": 100.0, "max": 100.0, "limit": 300.0},
            "temperature": {"mean": 40.0, "max": 40},
            "clocks": {"sm": clock, "mem": clock},
            "throttled": {"power cap": 0.5},
        }
    ]


def test_throttle_reasons_are_told_in_words() -> None:
    assert throttle_words(0x1 | 0x2 | 0x100) == []  # Idle, clocks set on purpose, display.
    assert throttle_words(0x8 | 0x40) == ["hardware slowdown", "thermal slowdown (hardware)"]
    assert throttle_words(0x10000) == ["unknown reason 0x10000"]


VISIBLE: dict[str | None, list[int]] = {
    None: [0, 1, 2],
    "": [],
    "-1": [],
    " 2,0": [2, 0],
    "1,7,0": [1],
    "1,1": [1],
    "GPU-bbb-2,GPU-a": [1, 0],
    "GPU-": [],  # It begins more than one.
    "NoDevFiles": [],
}


@pytest.mark.parametrize("selection", VISIBLE)
def test_only_visible_devices_are_shown_in_the_scripts_order(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: Any, selection: str | None
) -> None:
    nvml.gpus = [gpu("GPU-aaa-1"), gpu("GPU-bbb-2"), gpu("GPU-ccc-3")]
    ov.start(Gpu(by_default=True))
    if selection is not None:  # The script sets it.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", selection)
    ov.tick()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    ov.tick()
    first = [VISIBLE[selection]] if VISIBLE[selection] else []
    assert [list(event) for event in ov.given("gpudata")] == [*first, [1]]


def test_a_mig_instance_has_its_own_memory_and_its_boards_clocks(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: Any
) -> None:
    nvml.gpus = [gpu(), gpu("GPU-1", ClockInfo=900)]
    memory = SimpleNamespace(used=5 * MIB, total=9 * MIB)
    named = {"Name": b"MIG 1g.5gb", "UUID": "MIG-x"}
    nvml.instances["MIG-x"] = {"board": 1, "GpuInstanceId": 7, "MemoryInfo": memory, **named}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-x,MIG-y")
    assert ran(ov, 1, Gpu()) == [["1:7"]]
    told = ov.given("gpudata")[0]["1:7"]
    assert (told["memory"], told["clocks"]["sm"], told["name"]) == ([5.0, 9.0], 900, "MIG 1g.5gb")
    assert not {"load", "power"} & told.keys()


@pytest.mark.parametrize(("order", "slugs"), [("", ["gpu-order"]), ("PCI_BUS_ID", [])])
def test_numbers_that_cuda_may_read_otherwise_are_pointed_out(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: Any, order: str, slugs: list[str]
) -> None:
    nvml.gpus = [gpu("GPU-a", Name="Small"), gpu("GPU-b", Name="Large")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    ran(ov, 2, Gpu(by_default=True))
    assert ov.slugs == slugs


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_that_fails_is_absent_and_the_others_stay(
    ov: FakeOverseer, nvml: FakeNvml, name: str
) -> None:
    nvml.gpus[0][name] = FAILS
    ov.start(Gpu())
    ov.tick(times=5)
    nvml.gpus[0] |= gpu()
    ov.tick()
    ov.end("run_script")
    assert [len(event[0]) for event in ov.given("gpudata")] == [8] * 5 + [9]
    assert (ov.slugs, len(ov.summary["devices"])) == ([], 1)


#: What fails, whether it answers at each sample, and how often it is shown: then it is not asked.
LOST = [
    (FIGURES, "+--+", 2, []),
    (FIGURES, "+---+", 1, ["gpu-lost"]),
    (FIGURES, "---", 0, ["gpu-lost"]),
    (["HandleByIndex"], "--++", 2, []),
    (["HandleByIndex"], "---+", 0, ["gpu-lost"]),
]


@pytest.mark.parametrize(("fails", "samples", "shown", "slugs"), LOST)
def test_a_gpu_without_any_answer_for_three_samples_is_lost_and_said_once(
    ov: FakeOverseer, nvml: FakeNvml, fails: list[str], samples: str, shown: int, slugs: list[str]
) -> None:
    nvml.gpus = [gpu("GPU-a"), gpu("GPU-b")]
    ov.start(Gpu(by_default=True))
    for answers in samples:
        nvml.gpus[0] |= gpu("GPU-a") if answers == "+" else dict.fromkeys(fails, FAILS)
        ov.tick()
    ov.end("run_script")
    assert [1 in event for event in ov.given("gpudata")] == [True] * len(samples)
    assert (sum(0 in event for event in ov.given("gpudata")), ov.slugs) == (shown, slugs)


def raised(kind: str) -> Any:
    """A library that raises an error of this class, as NVML's has one for each code."""
    error = type(kind, (Exception,), {})("the driver says no")
    return SimpleNamespace(nvmlInit=lambda: (_ for _ in ()).throw(error))


#: The library, what is said of it if GPUs were asked for, and if they were not.
OPENING = {
    "not installed": (None, ["missing-extra"], []),
    "no library of the driver's": (raised("NVMLError_LibraryNotFound"), ["gpu-driver"], []),
    "no driver": (raised("NVMLError_DriverNotLoaded"), ["gpu-driver"], []),
    "versions differ": (raised("NVMLError_LibRmVersionMismatch"), *[["gpu-driver"]] * 2),
    "another package": (raised("RuntimeError"), ["gpu-driver"], []),
    "an empty module": (object(), ["gpu-driver"], []),
    "no device": (FakeNvml(), ["gpu-none"], []),
}


@pytest.mark.parametrize("by_default", [False, True])
@pytest.mark.parametrize("case", OPENING)
def test_a_machine_without_devices_is_told_once_if_that_matters(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: Any, case: str, by_default: bool
) -> None:
    library, *slugs = OPENING[case]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert ran(ov, 4, Gpu(by_default=by_default)) == []
    assert (ov.slugs, ov.events, ov.summary) == (slugs[by_default], [], {})


def test_a_library_that_vanishes_is_lost_and_said_once(ov: FakeOverseer, nvml: FakeNvml) -> None:
    nvml.nvmlDeviceGetCount = lambda: 1 // 0  # type: ignore[method-assign]
    ran(ov, 6, Gpu(by_default=True))
    assert [problem.what[:27] for problem in ov.problems] == ["GPUs could not be sampled: "]


def test_a_call_that_has_not_come_back_when_the_run_ends_is_told(
    ov: FakeOverseer, nvml: FakeNvml
) -> None:
    class Hanging:
        @property
        def gpu(self) -> int:
            ov.end("run_script")  # The run does not wait for it.
            return 0

    ov.start(Gpu(by_default=True))
    ov.tick()
    nvml.gpus[0]["UtilizationRates"] = Hanging()
    ov.tick()
    assert (ov.slugs, len(ov.summary["devices"])) == (["gpu-driver"], 1)
    assert "does not answer" in ov.problems[0].what


def test_memory_that_grows_all_the_time_is_told(ov: FakeOverseer, nvml: FakeNvml) -> None:
    nvml.gpus = [gpu("GPU-a"), gpu("GPU-b")]
    ov.start(Gpu())
    for sample in range(40):
        used = (1000 + 50 * sample) * MIB
        nvml.gpus[0]["MemoryInfo"] = SimpleNamespace(used=used, total=80_000 * MIB)
        ov.tick()
    ov.end("run_script")
    growing, level = (device["memory"] for device in ov.summary["devices"])
    assert growing["growth"]["bytes"] > 1000 * MIB
    assert "growth" not in level


def test_the_real_library_has_what_is_asked_of_it() -> None:
    real: Any = pytest.importorskip("pynvml")
    calls = ["DeviceHandleFromMigDeviceHandle", "HandleByUUID", "Index", "GpuInstanceId", "Count"]
    names = [f"nvmlDeviceGet{name}" for name in [*gpu(), *calls]]
    assert [name for name in [*names, "nvmlInit"] if not hasattr(real, name)] == []
    kinds = ["NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded"]
    assert [type(real.NVMLError(code)).__name__ for code in (12, 9)] == kinds
    assert (real.NVML_CLOCK_SM, real.NVML_CLOCK_MEM, real.NVML_TEMPERATURE_GPU) == (1, 2, 0)
    assert throttle_words(real.nvmlClocksThrottleReasonHwPowerBrakeSlowdown) == ["power brake"]
