"""NVIDIA GPUs through a fake NVML: what is shown, decoded, flagged, and when it is silent."""

from __future__ import annotations

import importlib
import sys
from typing import Any
from unittest.mock import MagicMock

import pytest

from instruments.gpu import Gpu
from instruments.nvml import Nvml, throttle_words

NOT_SUPPORTED, NO_PERMISSION, NOT_LOADED, NO_LIBRARY, LOST, MISMATCH = 3, 4, 9, 12, 15, 18
UNINITIALISED, TIMEOUT, RESET, NO_DATA, NOT_READY, UNKNOWN = 1, 10, 16, 21, 27, 999
PASSING = [TIMEOUT, NO_DATA, NOT_READY, UNKNOWN]
MIB = 1 << 20


def start(ov: Any, monitor: Gpu | None = None) -> None:
    """Run up to the first sample."""
    ov.require(monitor or Gpu())
    ov.walk_to_script()
    ov.tick(0.25)


def shown(ov: Any) -> list[Any]:
    return list(ov.given("gpudata")[-1]) if ov.given("gpudata") else []


def slugs(ov: Any) -> list[str]:
    return [problem.slug for problem in ov.problems]


# Shapes


def test_the_event_has_the_keys_that_old_voirfiles_read_and_more(ov: Any, nvml: Any) -> None:
    start(ov)
    assert ov.given("gpudata") == [
        {
            0: {
                "memory": [1024.0, 4096.0],
                "load": 0.5,
                "temperature": 40,
                "power": 100.0,
                "power_limit": 300.0,
                "clocks": {"sm": 1500, "mem": 2000},
                "throttle": [],
                "name": "NVIDIA Test",
                "uuid": "GPU-0",
            }
        }
    ]


def test_the_summary_has_means_peaks_and_limits(ov: Any, nvml: Any) -> None:
    (gpu,) = nvml.gpus
    start(ov)
    gpu.values.update(utilisation=100, used=2048 * MIB, power=200_000, sm=1000, throttle=0x4)
    ov.tick()
    ov.end_script()
    assert ov.summary["devices"] == [
        {
            "kind": "cuda",
            "name": "NVIDIA Test",
            "uuid": "GPU-0",
            "index": 0,
            "utilisation": {"mean": 0.75, "max": 1.0},
            "memory": {"peak": 2048 * MIB, "total": 4096 * MIB},
            "power": {"mean": 150.0, "max": 200.0, "limit": 300.0},
            "temperature": {"mean": 40.0, "max": 40},
            "clocks": {
                "sm": {"mean": 1250.0, "max": 1500, "min": 1000},
                "mem": {"mean": 2000.0, "max": 2000, "min": 2000},
            },
            "throttled": {"power cap": 0.5},
        }
    ]


def test_a_run_without_throttling_says_that_there_was_none(ov: Any, nvml: Any) -> None:
    start(ov)
    ov.end_script()
    assert ov.summary["devices"][0]["throttled"] == {}


def test_what_the_device_does_not_tell_is_absent_and_not_asked_again(ov: Any, nvml: Any) -> None:
    (gpu,) = nvml.gpus
    gpu.values.update(
        utilisation=nvml.fail(NOT_SUPPORTED),
        power=nvml.fail(NO_PERMISSION),
        throttle=nvml.fail(NOT_SUPPORTED),
        used=nvml.fail(NOT_SUPPORTED),
        mem=nvml.fail(NOT_SUPPORTED),
    )
    start(ov)
    ov.tick()
    ov.end_script()
    for event in ov.given("gpudata"):
        assert event[0]["clocks"] == {"sm": 1500}
        assert not {"load", "power", "throttle", "memory"} & set(event[0])
    assert nvml.calls.count("utilisation") == 1
    assert not {"utilisation", "memory", "power", "throttled"} & set(ov.summary["devices"][0])
    assert ov.problems == []


def test_an_older_library_without_the_newer_calls_is_enough(
    nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlMemory_v2"):
        monkeypatch.delattr(type(nvml), name)
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda gpu: 0x40
    (device,) = Nvml(nvml).visible(None)
    data = device.read()
    assert data["throttle"] == ["thermal slowdown (hardware)"]
    assert data["memory"] == [1024.0, 4096.0]


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, []),
        (0x1 | 0x2 | 0x100, []),  # Idle, clocks set on purpose, display: no throttling.
        (0x4, ["power cap"]),
        (0x8 | 0x40, ["hardware slowdown", "thermal slowdown (hardware)"]),
        (0x20 | 0x1, ["thermal slowdown (software)"]),
        (0x80, ["power brake"]),
        (0x10000, ["unknown reason 0x10000"]),
    ],
)
def test_throttle_reasons_are_told_in_words(bits: int, words: list[str]) -> None:
    assert throttle_words(bits) == words


# Which devices


@pytest.mark.parametrize(
    ("selection", "indices"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        ("0,-1,2", [0]),
        ("1,7,0", [1]),
        (" 1 , 2 ", [1, 2]),
        ("1,1", [1]),
        ("GPU-bbb", [1]),
        ("GPU-bbb-2,GPU-a", [1, 0]),
        ("GPU-", []),  # It begins more than one.
        ("GPU-zzz,0", []),
        ("NoDevFiles", []),
    ],
)
def test_only_visible_devices_are_shown_in_the_scripts_order(
    ov: Any,
    nvml: Any,
    monkeypatch: pytest.MonkeyPatch,
    selection: str | None,
    indices: list[int],
) -> None:
    nvml.gpus = [nvml.Gpu(uuid=uuid) for uuid in ("GPU-aaa-1", "GPU-bbb-2", "GPU-ccc-3")]
    if selection is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", selection)
    start(ov, Gpu(by_default=True))
    assert shown(ov) == indices
    assert ov.problems == []


def test_a_selection_that_the_script_makes_later_is_followed(
    ov: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.gpus = [nvml.Gpu(uuid="GPU-a"), nvml.Gpu(uuid="GPU-b")]
    start(ov)
    assert shown(ov) == [0, 1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    ov.tick()
    assert shown(ov) == [1]


def test_a_mig_instance_has_its_own_memory_and_its_boards_clocks(
    ov: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.gpus = [nvml.Gpu(), nvml.Gpu(uuid="GPU-1", sm=900, throttle=0x4)]
    instance = nvml.Gpu(name="NVIDIA Test MIG 1g.5gb", uuid="MIG-x", used=5 * MIB, total=9 * MIB)
    instance.values["utilisation"] = nvml.fail(NOT_SUPPORTED)
    instance.board, instance.instance = nvml.gpus[1], 7
    nvml.instances["MIG-x"] = instance
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-x,MIG-y")
    start(ov)
    (event,) = ov.given("gpudata")
    assert event == {
        "1:7": {
            "memory": [5.0, 9.0],
            "temperature": 40,
            "clocks": {"sm": 900, "mem": 2000},
            "throttle": ["power cap"],
            "name": "NVIDIA Test MIG 1g.5gb",
            "uuid": "MIG-x",
        }
    }


def test_numbers_that_cuda_may_read_otherwise_are_pointed_out(
    ov: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.gpus = [nvml.Gpu("Small", "GPU-a"), nvml.Gpu("Large", "GPU-b")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    start(ov)
    ov.tick()
    assert slugs(ov) == ["gpu-order"]
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in ov.problems[0].remedy


def test_in_bus_order_there_is_no_doubt(
    ov: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.gpus = [nvml.Gpu("Small", "GPU-a"), nvml.Gpu("Large", "GPU-b")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    start(ov)
    assert ov.problems == [] and shown(ov) == [0]


# When something is missing or breaks


def test_a_missing_library_names_the_install_command_when_gpus_were_asked_for(
    ov: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    start(ov)
    ov.tick()
    assert slugs(ov) == ["missing-extra"]
    assert ov.problems[0].remedy == 'pip install "voir-overseer[gpu]"'


def test_a_library_that_cannot_be_loaded_is_told_with_a_remedy(
    ov: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise OSError("bad ELF")

    monkeypatch.setattr("instruments.gpu.import_module", broken)
    start(ov)
    ov.tick()
    assert slugs(ov) == ["gpu-driver"]
    assert "pynvml cannot be imported: OSError: bad ELF" in ov.problems[0].what
    assert ov.problems[0].remedy


def test_a_missing_library_is_no_matter_when_nobody_asked(
    ov: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    start(ov, Gpu(by_default=True))
    assert ov.problems == [] and ov.events == []


@pytest.mark.parametrize("code", [NO_LIBRARY, NOT_LOADED])
@pytest.mark.parametrize("asked", [True, False])
def test_a_machine_without_a_driver_matters_only_when_gpus_were_asked_for(
    ov: Any, nvml: Any, code: int, asked: bool
) -> None:
    nvml.init_error = code
    start(ov, Gpu(by_default=not asked))
    ov.tick()
    assert slugs(ov) == (["gpu-driver"] if asked else [])
    assert nvml.calls == ["init"]


def test_a_broken_driver_is_always_reported_once(ov: Any, nvml: Any) -> None:
    nvml.init_error = MISMATCH
    start(ov, Gpu(by_default=True))
    ov.tick()
    assert slugs(ov) == ["gpu-driver"]
    ov.end_script()
    assert "devices" not in ov.summary


class Foreign:
    """A module of the same name that is not NVIDIA's: it has no error of NVML's."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def nvmlInit(self) -> None:
        if self.error is not None:
            raise self.error


MISMATCHING = RuntimeError("driver/library version mismatch")


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    ("library", "why"),
    [
        (Foreign(MISMATCHING), "RuntimeError: driver/library version mismatch"),
        (Foreign(None), "AttributeError: 'Foreign' object has no attribute 'NVMLError'"),
        (object(), "AttributeError: 'object' object has no attribute 'nvmlInit'"),
        (MagicMock(), "TypeError: NVMLError is no exception"),
    ],
)
def test_another_library_of_that_name_matters_only_when_gpus_were_asked_for(
    ov: Any, monkeypatch: pytest.MonkeyPatch, library: object, why: str, asked: bool
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)  # type: ignore[arg-type]
    start(ov, Gpu(by_default=not asked))
    ov.tick()
    assert [problem.what for problem in ov.problems] == [f"NVML cannot be used: {why}"] * asked
    assert slugs(ov) == ["gpu-driver"] * asked
    assert ov.events == []
    ov.end_script()
    assert "devices" not in ov.summary


def test_an_error_of_the_library_that_is_not_nvmls_is_told_as_it_is(ov: Any, nvml: Any) -> None:
    def failing() -> None:
        raise OSError("bad ELF")

    nvml.nvmlInit = failing
    start(ov)
    ov.tick()
    assert [problem.what for problem in ov.problems] == ["NVML cannot be used: OSError: bad ELF"]


def test_a_call_that_has_not_come_back_when_the_run_ends_is_told(ov: Any, nvml: Any) -> None:
    class Late:
        def __truediv__(self, other: int) -> float:
            ov.end_script()
            return 0.5

    start(ov, Gpu(by_default=True))
    ov.tick()
    assert slugs(ov) == []
    nvml.gpus[0].values["utilisation"] = Late()
    ov.tick()
    assert slugs(ov) == ["gpu-driver"]
    assert "does not answer" in ov.problems[0].what


def test_a_lost_gpu_is_reported_once_and_the_others_go_on(ov: Any, nvml: Any) -> None:
    nvml.gpus = [nvml.Gpu(uuid="GPU-a"), nvml.Gpu(uuid="GPU-b")]
    start(ov)
    nvml.gpus[0].values["utilisation"] = nvml.fail(LOST)
    ov.tick()
    nvml.gpus[0].values["utilisation"] = 50  # It answers again, and is left alone all the same.
    ov.tick()
    assert slugs(ov) == ["gpu-lost"]
    assert [list(event) for event in ov.given("gpudata")] == [[0, 1], [1], [1]]
    ov.end_script()
    assert [device["uuid"] for device in ov.summary["devices"]] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("code", PASSING)
def test_a_figure_that_fails_is_left_out_and_the_others_stay(ov: Any, nvml: Any, code: int) -> None:
    nvml.gpus[0].values["power"] = nvml.fail(code)
    start(ov)
    for _ in range(5):
        ov.tick()
    ov.end_script()
    samples = [event[0] for event in ov.given("gpudata")]
    assert len(samples) == 6
    assert not any("power" in sample for sample in samples)
    assert {sample["load"] for sample in samples} == {0.5}
    assert nvml.calls.count("power") == 6
    assert "power" not in ov.summary["devices"][0]
    assert ov.problems == []


@pytest.mark.parametrize("code", PASSING)
@pytest.mark.parametrize("figures", [["utilisation"], ["throttle"], ["used"], "all"])
def test_what_failed_is_there_again_when_it_is_answered(
    ov: Any, nvml: Any, code: int, figures: Any
) -> None:
    (gpu,) = nvml.gpus
    values = dict(gpu.values)
    start(ov)
    gpu.values.update(dict.fromkeys(values if figures == "all" else figures, nvml.fail(code)))
    for _ in range(2):
        ov.tick()
    gpu.values.update({**values, "throttle": 0x4})
    ov.tick()
    assert ov.given("gpudata")[-1][0]["load"] == 0.5
    assert len(ov.given("gpudata")) == (2 if figures == "all" else 4)
    ov.end_script()
    share = 0.5 if figures in ("all", ["throttle"]) else 0.25
    assert ov.summary["devices"][0]["throttled"] == {"power cap": share}
    assert ov.problems == []


def test_a_gpu_that_answers_nothing_for_several_samples_is_lost(ov: Any, nvml: Any) -> None:
    nvml.gpus = [nvml.Gpu(uuid="GPU-a"), nvml.Gpu(uuid="GPU-b")]
    start(ov)
    values = nvml.gpus[0].values
    nvml.gpus[0].values = dict.fromkeys(values, nvml.fail(UNKNOWN))
    for told in (0, 0, 1, 1):
        ov.tick()
        assert slugs(ov) == ["gpu-lost"] * told
        assert shown(ov) == [1]
    nvml.gpus[0].values = values
    ov.tick()
    assert shown(ov) == [1]


@pytest.mark.parametrize("code", [UNINITIALISED, NOT_LOADED, LOST, RESET])
def test_an_error_that_says_that_a_gpu_is_lost_is_believed(ov: Any, nvml: Any, code: int) -> None:
    start(ov)
    nvml.gpus[0].values["temperature"] = nvml.fail(code)
    ov.tick()
    assert slugs(ov) == ["gpu-lost"]
    assert len(ov.given("gpudata")) == 1


def test_a_gpu_that_cannot_be_opened_at_first_is_tried_again(ov: Any, nvml: Any) -> None:
    nvml.gpus = [nvml.Gpu(uuid="GPU-a", open=nvml.fail(NOT_READY)), nvml.Gpu(uuid="GPU-b")]
    start(ov)
    assert shown(ov) == [1]
    del nvml.gpus[0].values["open"]
    ov.tick()
    assert shown(ov) == [0, 1]
    assert ov.problems == []


def test_a_gpu_that_can_never_be_opened_is_told_once(ov: Any, nvml: Any) -> None:
    nvml.gpus = [nvml.Gpu(uuid="GPU-a", open=nvml.fail(NOT_READY)), nvml.Gpu(uuid="GPU-b")]
    start(ov)
    for _ in range(4):
        ov.tick()
    assert slugs(ov) == ["gpu-lost"]
    assert shown(ov) == [1]


def test_a_gpu_that_was_lost_before_the_run_does_not_hide_the_others(ov: Any, nvml: Any) -> None:
    nvml.gpus = [nvml.Gpu(uuid="GPU-a", open=nvml.fail(LOST)), nvml.Gpu(uuid="GPU-b")]
    start(ov)
    ov.tick()
    assert slugs(ov) == ["gpu-lost"]
    assert shown(ov) == [1]


def test_losing_the_only_gpu_leaves_no_empty_events(ov: Any, nvml: Any) -> None:
    start(ov)
    nvml.gpus[0].values["power"] = nvml.fail(LOST)
    ov.tick()
    assert len(ov.given("gpudata")) == 1


@pytest.mark.parametrize(("selection", "why"), [("", "CUDA_VISIBLE_DEVICES"), (None, "none")])
def test_asking_for_gpus_where_none_is_visible_is_answered(
    ov: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch, selection: str | None, why: str
) -> None:
    if selection is None:
        nvml.gpus = []
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", selection)
    start(ov)
    ov.tick()
    assert slugs(ov) == ["gpu-none"]
    assert why in ov.problems[0].what


def test_nvml_is_opened_once_and_on_the_first_tick(ov: Any, nvml: Any) -> None:
    ov.require(Gpu())
    ov.walk_to_script()
    assert nvml.calls == []
    ov.tick(0.25)
    ov.tick()
    assert nvml.calls.count("init") == 1


# The real library


def test_the_real_library_has_what_is_asked_of_it() -> None:
    real = pytest.importorskip("pynvml")
    names = [
        "nvmlInit",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetHandleByUUID",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
        "nvmlDeviceGetIndex",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetClockInfo",
        "NVML_TEMPERATURE_GPU",
        "NVML_CLOCK_SM",
        "NVML_CLOCK_MEM",
    ]
    assert [name for name in names if not hasattr(real, name)] == []
    assert (real.NVML_ERROR_DRIVER_NOT_LOADED, real.NVML_ERROR_LIBRARY_NOT_FOUND) == (9, 12)
    assert real.NVML_ERROR_NOT_SUPPORTED == NOT_SUPPORTED
    assert real.NVML_ERROR_GPU_IS_LOST == LOST


def test_the_throttle_words_are_the_real_librarys_bits() -> None:
    real = pytest.importorskip("pynvml")
    assert throttle_words(real.nvmlClocksThrottleReasonSwPowerCap) == ["power cap"]
    assert throttle_words(real.nvmlClocksThrottleReasonHwPowerBrakeSlowdown) == ["power brake"]
    assert throttle_words(real.nvmlClocksThrottleReasonGpuIdle) == []


@pytest.mark.gpu
def test_a_real_gpu_tells_its_name_memory_and_load(
    ov: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        real = importlib.import_module("pynvml")
        real.nvmlInit()
    except Exception as error:  # The library, the driver or the device is missing.
        pytest.skip(f"no NVIDIA GPU here: {error}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    start(ov)
    assert ov.problems == []
    first = next(iter(ov.given("gpudata")[0].values()))
    assert first["name"] and 0 <= first["memory"][0] <= first["memory"][1]
    assert 0 <= first.get("load", 0) <= 1


def test_memory_that_grows_all_the_time_is_told() -> None:
    from types import SimpleNamespace

    from instruments.gpu import DeviceSummary

    device: Any = SimpleNamespace(name="GPU", uuid="GPU-1", index=0)
    growing, level = DeviceSummary(device), DeviceSummary(device)
    for sample in range(40):
        growing.add({"memory": [1000.0 + 50 * sample, 80_000.0]})
        level.add({"memory": [1000.0, 80_000.0]})
    never = DeviceSummary(device, stepped=lambda: (0.0, 0.0))
    for sample in range(40):
        never.add({"memory": [1000.0 + 50 * sample, 80_000.0]})
    assert growing.entry()["memory"]["growth"]["bytes"] > 1000 << 20
    assert "growth" not in never.entry()["memory"]  # It grew when no step was made.
    assert "growth" not in level.entry()["memory"]
