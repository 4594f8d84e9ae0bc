"""Accelerators of AMD, Intel and Habana: one function each, which returns a reader.

A reader returns for each device, by its number, what it tells now: ``name``, ``uuid``, ``memory``
as used and total MiB, ``load`` 0 to 1, ``temperature`` in degrees Celsius, ``power`` in W. What it
does not tell is None.
"""

from __future__ import annotations

import os
import subprocess
from importlib import import_module
from pathlib import Path

from .nvml import MIB, decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: A device's number, or a name where the maker's tools number differently.
    Number = int | str
    Read = Callable[[], dict[Number, dict[str, Any]]]

AMD = "0x1002"
#: What xpu-smi calls load in percent, power in W, temperature in Celsius, memory used in MiB.
INTEL = "0,1,3,18"
#: How long a command of Intel's may take, in seconds.
SMI_SECONDS = 20


class NotAvailable(Exception):
    """This machine lacks the device, or the library or command that reads it."""


def amd(cards: str = "/sys/class/drm") -> Read:
    """Open AMD's devices, read from the kernel driver's files in ``/sys``.

    Raises:
        NotAvailable: There is no such device.
    """
    every = [card / "device" for card in Path(cards).glob("card*") if card.name[4:].isdigit()]
    ours = [card for card in every if _text(card / "vendor") == AMD]
    # In order of PCI address, as ROCm numbers them.
    found = sorted((c for c in ours if (c / "mem_info_vram_total").exists()), key=_real_name)
    if not found:
        raise NotAvailable(f"there is no device of AMD's in {cards}")
    return lambda: {number: _amd(card) for number, card in enumerate(found)}


def _amd(card: Path) -> dict[str, Any]:
    sensors = next(iter((card / "hwmon").glob("hwmon*")), card)
    power = _file(sensors / "power1_average") or _file(sensors / "power1_input")
    sizes = [_file(card / f"mem_info_vram_{name}") for name in ("used", "total")]
    return {
        "name": _text(card / "product_name") or "AMD GPU",
        "uuid": f"GPU-{_text(card / 'unique_id')}",
        "memory": [scaled(size, MIB) for size in sizes],
        "load": scaled(_file(card / "gpu_busy_percent"), 100),
        "temperature": scaled(_file(sensors / "temp1_input"), 1000),
        "power": scaled(power, 1_000_000),
    }


def intel(command: str = "") -> Read:
    """Open Intel's devices, read by the command ``xpu-smi`` (``xpumcli`` on managed machines).

    Raises:
        NotAvailable: The command is missing or fails.
    """
    import json
    from shutil import which

    command = command or which("xpu-smi") or which("xpumcli") or ""
    if not command:
        raise NotAvailable("neither xpu-smi nor xpumcli is installed")
    try:
        listed = json.loads(_run(command, "discovery", "-j"))["device_list"]
        numbers = [str(device["device_id"]) for device in listed]
        each = {n: json.loads(_run(command, "discovery", "-d", n, "-j")) for n in numbers}
    except Exception as error:  # Unexpected output, or a timeout.
        raise NotAvailable(f"{command} cannot be used: {error}") from error
    return lambda: _intel(command, each)


def _intel(command: str, devices: dict[str, Any]) -> dict[Number, dict[str, Any]]:
    lines = _run(command, "dump", "-d", "-1", "-m", INTEL, "-n", "1").splitlines()
    rows = [[word.strip() for word in line.split(",")] for line in lines]
    told = {row[1]: [*map(number, row[2:]), None, None, None, None] for row in rows if row[1:]}
    found: dict[Number, dict[str, Any]] = {}
    for n, device in devices.items():
        load, power, celsius, used = told.get(n, [None] * 4)[:4]
        found[int(n)] = {
            "name": str(device.get("device_name", "Intel GPU")),
            "uuid": "*",  # ONEAPI_DEVICE_SELECTOR's name for all devices.
            "memory": [used, scaled(number(device.get("memory_physical_size_byte")), MIB)],
            "load": scaled(load, 100),
            "temperature": celsius,
            "power": power,
        }
    return found


def habana() -> Read:
    """Open Habana's devices (Gaudi), read by HLML, the package pyhlml.

    Raises:
        NotAvailable: The package is missing or fails.
    """
    try:
        hlml = import_module("pyhlml")
        hlml.hlmlInit()
        found = [hlml.hlmlDeviceGetHandleByIndex(n) for n in range(hlml.hlmlDeviceGetCount())]
    except Exception as error:  # The binding has an exception class for each of HLML's codes.
        raise NotAvailable(f"HLML cannot be used: {error}") from error
    return lambda: {number: _habana(hlml, handle) for number, handle in enumerate(found)}


def _habana(hlml: Any, handle: Any) -> dict[str, Any]:
    def ask(name: str, *more: object) -> Any:
        try:
            return getattr(hlml, f"hlmlDeviceGet{name}")(handle, *more)
        except Exception:
            return None

    memory = ask("MemoryInfo")
    return {
        "name": decoded(ask("Name")),
        "uuid": decoded(ask("UUID")),
        "memory": [memory.used / MIB, memory.total / MIB] if memory else [None, None],
        "load": scaled(ask("UtilizationRates"), 100),
        "temperature": ask("Temperature", 0),
        "power": scaled(ask("PowerUsage"), 1000),
    }


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SMI_SECONDS)
    return done.stdout


def _real_name(path: Path) -> str:
    return os.path.basename(os.path.realpath(path))


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _file(file: Path) -> float | None:
    return number(_text(file))


def number(text: object) -> float | None:
    """Parse a number; None for ``N/A`` and other text."""
    try:
        return float(str(text))
    except ValueError:
        return None


def scaled(value: float | None, unit: int) -> float | None:
    """Divide ``value`` by ``unit``; None stays None."""
    return None if value is None else value / unit
