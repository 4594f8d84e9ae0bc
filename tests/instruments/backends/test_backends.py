"""Each maker's devices in one shape, told by stand-ins for what the makers provide."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instruments import backends
from instruments.backends import (
    BACKENDS,
    NotAvailable,
    choice,
    cpu,
    cuda,
    deduce_backend,
    get_gpu_info,
    gpu_info,
    gpu_monitor,
    hpu,
    rocm,
    select_backend,
    xpu,
)
from instruments.backends.device import DeviceReader
from overseer.errors import VoirError

SHAPE = {
    "device",
    "product",
    "memory",
    "utilization",
    "temperature",
    "power",
    "selection_variable",
}


@pytest.fixture(autouse=True)
def nothing_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_selected", [])


class Two(DeviceReader):
    arch = "two"
    variable = "TWO_VISIBLE"
    closed = 0

    def get_gpus_info(self, selection: Any = None) -> dict[Any, Any]:
        every = {
            n: self.entry(n, "Two", memory={"used": n, "total": 9}, power=n * 1.5) for n in (0, 1)
        }
        return {n: e for n, e in every.items() if selection is None or str(n) in selection}

    def close(self) -> None:
        Two.closed += 1


def installed(reader: Any, present: bool = True) -> Any:
    return SimpleNamespace(is_installed=lambda: present, DeviceSMI=reader)


def test_a_machine_without_devices_has_processors() -> None:
    assert cpu.DeviceSMI().get_gpus_info() == {}
    assert set(BACKENDS) == {"cpu", "cuda", "hpu", "rocm", "xpu"}


def test_the_kind_is_found_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "BACKENDS", {"cpu": cpu, "two": installed(Two)})
    assert deduce_backend() == "two"
    info = get_gpu_info()
    assert (info["arch"], set(info["gpus"])) == ("two", {0, 1})
    assert set(info["gpus"][0]) == SHAPE


def test_several_kinds_are_not_guessed_between(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"a": installed(Two), "b": installed(Two), "cpu": cpu}
    monkeypatch.setattr(choice, "BACKENDS", both)
    with pytest.raises(VoirError, match="a, b"):
        deduce_backend()
    assert select_backend("b").arch == "two"


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "BACKENDS", {"cpu": cpu, "two": installed(Two, present=False)})
    for arch in ("two", "no such kind"):
        with pytest.raises(NotAvailable):
            select_backend(arch)
    assert deduce_backend() == "cpu"


def test_a_selection_stays_until_another_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "BACKENDS", {"cpu": cpu, "two": installed(Two)})
    first = select_backend("two")
    assert select_backend() is first
    assert select_backend("two") is first
    before = Two.closed
    assert select_backend("two", force=True) is not first
    assert select_backend("cpu").arch == "cpu"
    assert Two.closed == before + 2
    assert backends.attribute("DEVICESMI") is select_backend()
    with pytest.raises(AttributeError):
        backends.attribute("OTHER")


def test_only_what_the_environment_leaves_to_scripts_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "BACKENDS", {"two": installed(Two)})
    monkeypatch.setenv("TWO_VISIBLE", "1")
    assert set(get_gpu_info()["gpus"]) == {1}
    assert set(gpu_info(select_backend(), visible=False)["gpus"]) == {0, 1}
    reading = gpu_monitor()()
    assert reading == {1: {"memory": [1, 9], "load": None, "temperature": None, "power": 1.5}}


def fake_sys(cards: Path) -> None:
    for number, vendor in ((0, "0x1002"), (1, "0x10de")):
        device = cards / f"card{number}" / "device"
        sensors = device / "hwmon" / "hwmon3"
        sensors.mkdir(parents=True)
        files = {
            "vendor": vendor,
            "mem_info_vram_used": 2**30,
            "mem_info_vram_total": 4 * 2**30,
            "gpu_busy_percent": 37,
            "unique_id": "abc",
        }
        for name, value in files.items():
            (device / name).write_text(f"{value}\n")
        (sensors / "temp1_input").write_text("54000\n")
        (sensors / "power1_average").write_text("120500000\n")
    (cards / "card0-HDMI-A-1").mkdir()


def test_amds_devices_are_read_from_the_kernel(tmp_path: Path) -> None:
    fake_sys(tmp_path)
    reader = rocm.DeviceSMI(tmp_path)
    (device,) = reader.get_gpus_info().values()
    assert set(device) == SHAPE
    assert device["memory"] == {"used": 1024, "total": 4096}
    assert device["utilization"] == {"compute": 0.37, "memory": 0.25}
    assert (device["temperature"], device["power"]) == (54, 120.5)
    assert reader.get_gpus_info(["1"]) == {}
    assert set(reader.get_gpus_info(["GPU-abc"])) == {0}


def test_a_machine_without_amds_devices_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable):
        rocm.DeviceSMI(tmp_path)


def test_what_an_amd_device_does_not_tell_is_none(tmp_path: Path) -> None:
    fake_sys(tmp_path)
    (tmp_path / "card0" / "device" / "gpu_busy_percent").unlink()
    (device,) = rocm.DeviceSMI(tmp_path).get_gpus_info().values()
    assert device["utilization"]["compute"] is None


def fake_command(command: list[str]) -> str:
    if command[1:] == ["discovery", "-j"]:
        return json.dumps({"device_list": [{"device_id": 0}, {"device_id": 1}]})
    if command[1] == "discovery":
        return json.dumps(
            {
                "device_name": "Max 1550",
                "memory_physical_size_byte": str(8 * 2**30),
                "driver_version": "1.2",
            }
        )
    return (
        "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Temperature, Memory Used\n"
        "10:00:00.000, 0, 50.00, 99.5, 60.0, 2048.0\n"
        "10:00:00.000, 1, N/A, 80.0, N/A, 0.0\n"
    )


def test_intels_devices_are_read_by_its_command() -> None:
    reader = xpu.DeviceSMI(fake_command, "xpu-smi")
    devices = reader.get_gpus_info()
    assert [set(device) for device in devices.values()] == [SHAPE, SHAPE]
    assert devices[0]["memory"] == {"used": 2048, "total": 8192}
    assert devices[0]["utilization"] == {"compute": 0.5, "memory": 0.25}
    assert (devices[1]["utilization"]["compute"], devices[1]["temperature"]) == (None, None)
    assert set(reader.get_gpus_info(["level_zero:1"])) == {1}
    assert set(reader.get_gpus_info(["level_zero:*"])) == {0, 1}
    assert reader.system_info() == {"DRIVER_VERSION": "1.2"}


def test_a_command_that_fails_means_no_devices() -> None:
    def fails(command: list[str]) -> str:
        raise OSError("no device node")

    with pytest.raises(NotAvailable, match="no device node"):
        xpu.DeviceSMI(fails, "xpu-smi")


def fake_hlml(**changed: Any) -> Any:
    def unsupported(*args: object) -> None:
        raise RuntimeError("not supported")

    calls = {
        "hlmlInit": lambda: None,
        "hlmlDeviceGetCount": lambda: 1,
        "hlmlDeviceGetHandleByIndex": lambda n: n,
        "hlmlDeviceGetUUID": lambda h: b"HL-1",
        "hlmlDeviceGetName": lambda h: b"Gaudi2",
        "hlmlDeviceGetMemoryInfo": lambda h: SimpleNamespace(used=2**20, total=4 * 2**20),
        "hlmlDeviceGetUtilizationRates": lambda h: 80,
        "hlmlDeviceGetTemperature": unsupported,
        "hlmlDeviceGetPowerUsage": lambda h: 250_000,
    }
    return SimpleNamespace(**{**calls, **changed})


def test_habanas_devices_are_read_by_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpu, "import_module", lambda name: fake_hlml())
    reader = hpu.DeviceSMI()
    (device,) = reader.get_gpus_info(["HL-1"]).values()
    assert (device["product"], device["power"], device["temperature"]) == ("Gaudi2", 250, None)
    assert device["utilization"] == {"compute": 0.8, "memory": 0.25}
    assert reader.get_gpus_info(["7"]) == {}


def test_a_library_that_does_not_start_means_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("driver not loaded")

    monkeypatch.setattr(hpu, "import_module", lambda name: fake_hlml(hlmlInit=fails))
    with pytest.raises(NotAvailable, match="driver not loaded"):
        hpu.DeviceSMI()


def test_nvidias_devices_are_read_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    class NVMLError(Exception):
        value = 3

    def unsupported(*args: object) -> None:
        raise NVMLError

    library = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda n: n,
        nvmlDeviceGetName=lambda h: "H100",
        nvmlDeviceGetUUID=lambda h: "GPU-1",
        nvmlDeviceGetMemoryInfo=lambda h: SimpleNamespace(used=2**20, total=4 * 2**20),
        nvmlDeviceGetUtilizationRates=lambda h: SimpleNamespace(gpu=40, memory=2),
        nvmlDeviceGetTemperature=lambda h, sensor: 33,
        nvmlDeviceGetPowerUsage=lambda h: 70_000,
        nvmlDeviceGetClockInfo=unsupported,
        nvmlSystemGetDriverVersion=lambda: "555",
    )
    monkeypatch.setattr(cuda, "import_module", lambda name: library)
    reader = cuda.DeviceSMI()
    (device,) = reader.get_gpus_info(["0"]).values()
    assert set(device) == SHAPE
    assert device["memory"] == {"used": 1, "total": 4}
    assert device["utilization"] == {"compute": 0.4, "memory": 0.25}
    assert (device["temperature"], device["power"]) == (33, 70)
    assert reader.system_info() == {"DRIVER_VERSION": "555"}
    assert reader.get_gpus_info(["GPU-2"]) == {}
