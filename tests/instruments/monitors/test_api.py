"""What voirfiles import: each maker's devices in one shape, readings, and calling them."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from instruments.monitors import api, others
from instruments.monitors.api import get_gpu_info, select_backend
from instruments.monitors.others import NotAvailable, amd, habana, intel
from overseer.errors import VoirError

from .conftest import FakeNvml, FakeOverseer, NVMLError_Test, gpu

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_selected", [])


# Accelerators


def device(name: str, **told: Any) -> dict[str, Any]:
    none = {"memory": [None, None], "load": None, "temperature": None, "power": None}
    return {"name": name, "uuid": f"GPU-{name}", **none, **told}


def have(monkeypatch: pytest.MonkeyPatch, **kinds: Any) -> None:
    """Put kinds of devices in the place of those there are: what each reads, or why it cannot."""

    def opened(found: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return lambda: found

    every = {name: (partial(opened, kinds[name]), f"{name.upper()}_VISIBLE") for name in kinds}
    monkeypatch.setattr(api, "BACKENDS", {"cpu": (lambda: dict, ""), **every})


TWO = {0: device("a", memory=[1.0, 4.0]), 1: device("b", load=0.5, power=1.5)}


def test_the_kind_of_devices_is_found_by_itself_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, two=TWO, none=NotAvailable("no driver"), empty={})
    assert api.deduce_backend() == "two"
    chosen = select_backend()
    assert (chosen.arch, select_backend("two") is chosen) == ("two", True)
    assert api.attribute("DEVICESMI") is chosen
    assert select_backend("two", force=True) is not chosen
    for arch in ("none", "no such kind"):
        with pytest.raises(NotAvailable):
            select_backend(arch)
    with pytest.raises(AttributeError):
        api.attribute("OTHER")


def test_several_kinds_are_not_guessed_between_and_without_any_there_are_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have(monkeypatch, one=TWO, two=TWO)
    with pytest.raises(VoirError, match="one, two"):
        api.deduce_backend()
    have(monkeypatch)
    assert (get_gpu_info(), api.gpu_monitor()()) == ({"arch": "cpu", "gpus": {}}, {})


def test_devices_are_told_in_one_shape_and_only_those_left_to_scripts(monkeypatch: Any) -> None:
    have(monkeypatch, two=TWO)
    first, second = get_gpu_info()["gpus"].values()
    known = {"device": 0, "product": "a", "selection_variable": "TWO_VISIBLE"}
    memory = {"memory": {"used": 1, "total": 4}, "utilization": {"compute": None, "memory": 0.25}}
    assert first == {**known, **memory, "temperature": None, "power": None}
    assert second["utilization"] == {"compute": 0.5, "memory": None}
    for selection in ("1", "GPU-b", "level_zero:1"):
        monkeypatch.setenv("TWO_VISIBLE", selection)
        assert set(get_gpu_info()["gpus"]) == {1}
    told = {"memory": [None, None], "load": 0.5, "temperature": None, "power": 1.5}
    assert api.gpu_monitor()() == {1: told}
    assert set(api.gpu_info(select_backend(), visible=False)["gpus"]) == {0, 1}


def test_nvidias_devices_are_read_by_nvml(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_gpu_info("cuda")["gpus"][0]["utilization"] == {"compute": 0.5, "memory": 0.25}
    nvml.gpus = [gpu(HandleByIndex=NVMLError_Test("lost"))]
    assert get_gpu_info("cuda")["gpus"] != {}  # What is open stays so.
    assert select_backend("cuda", force=True).get_gpus_info() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NotAvailable):
        select_backend("cuda", force=True)


def test_amds_devices_are_read_from_the_kernel(tmp_path: Path) -> None:
    told = {"mem_info_vram_used": 2**30, "mem_info_vram_total": 4 * 2**30, "unique_id": "abc"}
    sensors = {"hwmon/hwmon3/temp1_input": 54000, "hwmon/hwmon3/power1_average": 120500000}
    for number, vendor in ((0, "0x1002"), (1, "0x10de")):
        for name, value in {"vendor": vendor, **told, **sensors}.items():
            file = tmp_path / f"card{number}" / "device" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
    (tmp_path / "card0-HDMI-A-1").mkdir()
    expected = {"memory": [1024, 4096], "temperature": 54, "power": 120.5, "uuid": "GPU-abc"}
    assert amd(str(tmp_path))() == {0: device("AMD GPU", **expected)}
    with pytest.raises(NotAvailable):
        amd(str(tmp_path / "card1"))


DUMP = """Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Temperature, Memory Used
10:00:00.000, 0, 50.00, 99.5, 60.0, 2048.0
10:00:00.000, 1, N/A, 80.0, N/A, 0.0
"""


def xpu_smi(*command: str) -> str:
    """What Intel's command prints."""
    if command[1] == "dump":
        return DUMP
    if "-d" in command:
        return json.dumps({"device_name": "Max", "memory_physical_size_byte": str(8 * 2**30)})
    return json.dumps({"device_list": [{"device_id": 0}, {"device_id": 1}]})


def test_intels_devices_are_read_by_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "_run", xpu_smi)
    first = {"memory": [2048, 8192], "load": 0.5, "temperature": 60, "power": 99.5, "uuid": "*"}
    second = {"memory": [0, 8192], "power": 80, "uuid": "*"}
    assert intel("xpu-smi")() == {0: device("Max", **first), 1: device("Max", **second)}
    for broken in ("[]", "no JSON"):
        monkeypatch.setattr(others, "_run", lambda *command, broken=broken: broken)
        with pytest.raises(NotAvailable):
            intel("xpu-smi")
    monkeypatch.undo()
    with pytest.raises(NotAvailable):
        intel("/no/such/command")


def test_habanas_devices_are_read_by_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "Count": 1,
        "HandleByIndex": "handle",
        "UUID": b"HL-1",
        "Name": b"Gaudi2",
        "MemoryInfo": SimpleNamespace(used=MIB, total=4 * MIB),
        "UtilizationRates": 80,
        "PowerUsage": 250_000,
    }
    calls = {f"hlmlDeviceGet{k}": lambda *handle, v=v: v for k, v in answers.items()}
    library: Any = SimpleNamespace(hlmlInit=lambda: None, **calls)
    monkeypatch.setitem(sys.modules, "pyhlml", library)
    told = {"memory": [1, 4], "load": 0.8, "power": 250, "uuid": "HL-1"}
    assert habana()() == {0: device("Gaudi2", **told)}
    library.hlmlInit = lambda: 1 // 0
    with pytest.raises(NotAvailable):
        habana()


# The host


def test_readings_of_the_machine_have_the_keys_that_old_voirfiles_read() -> None:
    cpu, process = api.cpu_monitor(), api.process_monitor(os.getpid(), recursive=False)
    for _ in range(2):
        host, own = cpu(), process()
        assert 0 <= host["load"] <= 100 and 0 <= own["load"] <= 100
        assert 0 < host["memory"][0] <= host["memory"][1]
        assert (own["pid"], own["memory"][1]) == (os.getpid(), host["memory"][1])
    with pytest.raises(psutil.NoSuchProcess):
        api.process_monitor(2**22 + 1)


def test_readings_of_disks_begin_at_nothing_and_those_of_the_network_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    each = {"a": SimpleNamespace(read_bytes=10, bytes_sent=10)}

    def counters(perdisk: bool = False, pernic: bool = False) -> Any:
        return each if perdisk or pernic else each["a"]

    monkeypatch.setattr(psutil, "disk_io_counters", counters)
    monkeypatch.setattr(psutil, "net_io_counters", counters)
    disks, every = api.io_monitor(), api.io_monitor(perdisk=True)
    each |= {"a": SimpleNamespace(read_bytes=12, bytes_sent=12), "b": SimpleNamespace(read_bytes=5)}
    assert disks() == {"read_bytes": 2}
    assert every() == {"a": {"read_bytes": 2}, "b": {"read_bytes": 5}}
    assert api.network_monitor()() == {"bytes_sent": 12}
    assert api.network_monitor(pernic=True)()["a"] == {"bytes_sent": 12}


# Calling them


def test_a_monitor_of_a_voirfiles_own_gives_each_key_and_one_that_fails_is_named_once(
    ov: FakeOverseer,
) -> None:
    began: list[str] = []
    keys = {"fine": lambda: 1, "broken": lambda: 1 // 0}
    ov.start(lambda ov: api.monitor(ov, 0.5, lambda: began.append("once"), **keys))
    assert (began, ov.timers[0].seconds) == ([], 0.5)
    ov.tick(times=2)
    assert began == ["once"]
    assert [set(event) for event in ov.events] == [{"task", "time", "fine"}] * 2
    (problem,) = ov.problems
    assert (problem.who, problem.slug) == ("monitor of broken", "instrument")
