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


def named(kind: str) -> Exception:
    """An error of the class that the library has for one code."""
    error: Exception = type(kind, (Exception,), {})("the driver says no")
    return error


def shown(ov: FakeOverseer) -> list[list[int | str]]:
    return [list(event) for event in ov.given("gpudata")]


def test_events_have_the_keys_that_old_voirfiles_read_and_the_record_means_and_peaks(
    ov: FakeOverseer, nvml: FakeNvml
) -> None:
    ov.start(Gpu())
    ov.tick()
    nvml.gpus[0].update(
        UtilizationRates=SimpleNamespace(gpu=0),
        MemoryInfo=SimpleNamespace(used=2048 * MIB, total=4096 * MIB),
        CurrentClocksEventReasons=0x4 | 0x1,
        ClockInfo=1000,
    )
    ov.tick()
    ov.end("run_script")
    assert ov.given("gpudata")[0] == {
        0: {
            "memory": [1024.0, 4096.0],
            "load": 0.5,
            "temperature": 40,
            "power": 100.0,
            "power_limit": 300.0,
            "clocks": {"sm": 1500, "mem": 1500},
            "throttle": [],
            "name": "NVIDIA Test",
            "uuid": "GPU-0",
        }
    }
    clock = {"mean": 1250.0, "max": 1500, "min": 1000}
    assert ov.summary["devices"] == [
        {
            "kind": "cuda",
            "name": "NVIDIA Test",
            "uuid": "GPU-0",
            "index": 0,
            "utilisation": {"mean": 0.25, "max": 0.5},
            "memory": {"peak": 2048 * MIB, "total": 4096 * MIB},
            "power": {"mean": 100.0, "max": 100.0, "limit": 300.0},
            "temperature": {"mean": 40.0, "max": 40},
            "clocks": {"sm": clock, "mem": clock},
            "throttled": {"power cap": 0.5},
        }
    ]


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x1 | 0x2 | 0x100, []),  # Idle, clocks set on purpose, display: no throttling.
        (0x8 | 0x40, ["hardware slowdown", "thermal slowdown (hardware)"]),
        (0x10000, ["unknown reason 0x10000"]),
    ],
)
def test_throttle_reasons_are_told_in_words(bits: int, words: list[str]) -> None:
    assert throttle_words(bits) == words


@pytest.mark.parametrize(
    ("selection", "indices"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        (" 2,0", [2, 0]),
        ("1,7,0", [1]),
        ("1,1", [1]),
        ("GPU-bbb-2,GPU-a", [1, 0]),
        ("GPU-", []),  # It begins more than one.
        ("NoDevFiles", []),
    ],
)
def test_only_visible_devices_are_shown_in_the_scripts_order(
    ov: FakeOverseer,
    nvml: FakeNvml,
    monkeypatch: pytest.MonkeyPatch,
    selection: str | None,
    indices: list[int],
) -> None:
    nvml.gpus = [gpu("GPU-aaa-1"), gpu("GPU-bbb-2"), gpu("GPU-ccc-3")]
    ov.start(Gpu(by_default=True))
    if selection is not None:  # The script sets it.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", selection)
    ov.tick()
    assert shown(ov) == ([indices] if indices else [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    ov.tick()
    assert shown(ov)[-1] == [1]


def test_a_mig_instance_has_its_own_memory_and_its_boards_clocks(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.gpus = [gpu(), gpu("GPU-1", ClockInfo=900)]
    memory = SimpleNamespace(used=5 * MIB, total=9 * MIB)
    nvml.instances["MIG-x"] = {
        "board": 1, "GpuInstanceId": 7, "Name": b"MIG 1g.5gb", "UUID": "MIG-x", "MemoryInfo": memory
    }  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-x,MIG-y")
    ov.start(Gpu())
    ov.tick()
    (told,) = ov.given("gpudata")[0].items()
    assert told[0] == "1:7"
    assert (told[1]["memory"], told[1]["clocks"]["sm"]) == ([5.0, 9.0], 900)
    assert (told[1]["name"], "load" in told[1], "power" in told[1]) == ("MIG 1g.5gb", False, False)


def test_numbers_that_cuda_may_read_otherwise_are_pointed_out(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.gpus = [gpu("GPU-a", Name="Small"), gpu("GPU-b", Name="Large")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    ov.start(Gpu(by_default=True))
    ov.tick(times=2)
    assert ov.slugs == ["gpu-order"]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    other = FakeOverseer()
    other.start(Gpu())
    other.tick()
    assert other.slugs == []


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_that_fails_is_absent_and_the_others_stay(
    ov: FakeOverseer, nvml: FakeNvml, name: str
) -> None:
    whole = gpu()
    nvml.gpus[0][name] = FAILS
    ov.start(Gpu())
    ov.tick(times=5)
    nvml.gpus[0][name] = whole[name]
    ov.tick()
    ov.end("run_script")
    first, *_, last = ov.given("gpudata")
    assert len(ov.given("gpudata")) == 6
    assert len(last[0]) == 9 and len(first[0]) == 8
    assert (ov.slugs, len(ov.summary["devices"])) == ([], 1)


@pytest.mark.parametrize(
    ("fails", "samples", "slugs"),
    [
        ("answers", "+--+", []),
        ("answers", "+---+", ["gpu-lost"]),  # It is not asked again.
        ("answers", "---", ["gpu-lost"]),
        ("opening", "--++", []),
        ("opening", "---+", ["gpu-lost"]),
    ],
)
def test_a_gpu_without_any_answer_for_three_samples_is_lost_and_said_once(
    ov: FakeOverseer, nvml: FakeNvml, fails: str, samples: str, slugs: list[str]
) -> None:
    nvml.gpus = [gpu("GPU-a"), gpu("GPU-b")]
    failing = dict.fromkeys(FIGURES if fails == "answers" else ["HandleByIndex"], FAILS)
    ov.start(Gpu(by_default=True))
    for answers in samples:
        nvml.gpus[0].update(gpu("GPU-a") if answers == "+" else failing)
        ov.tick()
    ov.end("run_script")
    asked, _, _ = samples.partition("---")
    seen = [answers == "+" for answers in (asked if slugs else samples)]
    seen += [False] * (len(samples) - len(seen))
    assert shown(ov) == [[0, 1] if each else [1] for each in seen]
    assert ov.slugs == slugs


FOREIGN = SimpleNamespace(nvmlInit=lambda: (_ for _ in ()).throw(RuntimeError("no device")))
#: The library, and whether something is said of it if GPUs were not asked for, or asked for.
OPENING = {
    "not installed": (None, [], ["missing-extra"]),
    "no library of the driver's": (named("NVMLError_LibraryNotFound"), [], ["gpu-driver"]),
    "no driver": (named("NVMLError_DriverNotLoaded"), [], ["gpu-driver"]),
    "versions differ": (named("NVMLError_LibRmVersionMismatch"), ["gpu-driver"], ["gpu-driver"]),
    "another package": (FOREIGN, [], ["gpu-driver"]),
    "an empty module": (object(), [], ["gpu-driver"]),
    "no device": (FakeNvml(), [], ["gpu-none"]),
}


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("case", OPENING)
def test_a_machine_without_devices_is_told_once_if_that_matters(
    ov: FakeOverseer, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, case: str, asked: bool
) -> None:
    library, *slugs = OPENING[case]
    if isinstance(library, Exception):
        nvml.init, library = library, nvml
    monkeypatch.setitem(sys.modules, "pynvml", library)  # type: ignore[arg-type]
    ov.start(Gpu(by_default=not asked))
    ov.tick(times=4)
    ov.end("run_script")
    assert ov.slugs == slugs[asked]
    assert (ov.events, ov.summary) == ([], {})
    assert nvml.calls.count("Init") <= 1


def test_a_library_that_vanishes_is_lost_and_said_once(ov: FakeOverseer, nvml: FakeNvml) -> None:
    nvml.nvmlDeviceGetCount = lambda: 1 // 0  # type: ignore[method-assign]
    ov.start(Gpu(by_default=True))
    ov.tick(times=6)
    ov.end("run_script")
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
    assert ov.slugs == ["gpu-driver"]
    assert "does not answer" in ov.problems[0].what
    assert len(ov.summary["devices"]) == 1


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
    kinds = ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
    assert [type(real.NVMLError(code)).__name__ for code in (12, 9)] == list(kinds)
    assert (real.NVML_CLOCK_SM, real.NVML_CLOCK_MEM, real.NVML_TEMPERATURE_GPU) == (1, 2, 0)
    assert throttle_words(real.nvmlClocksThrottleReasonHwPowerBrakeSlowdown) == ["power brake"]
