"""Intel's devices, by the command ``xpu-smi`` (``xpumcli`` on managed machines)."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable, Collection
from typing import Any, ClassVar

from .device import DeviceReader, NotAvailable, Number, wanted

MIB = 1024 * 1024
COMMANDS = ("xpu-smi", "xpumcli")
#: What ``dump`` calls load in percent, power in W, temperature in Celsius, memory used in MiB.
METRICS = "0,1,3,18"
SECONDS = 20

Run = Callable[[list[str]], str]


def is_installed() -> bool:
    """Whether one of the commands is there."""
    return _command() is not None


def _command() -> str | None:
    return next((path for name in COMMANDS if (path := shutil.which(name))), None)


def _run(command: list[str]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=SECONDS
    ).stdout


class DeviceSMI(DeviceReader):
    """Reads Intel's devices, all of the machine's.

    Args:
        run: Runs a command and returns what it printed.
        command: The command; found by itself when not given.
    """

    arch: ClassVar[str] = "xpu"
    variable: ClassVar[str] = "ONEAPI_DEVICE_SELECTOR"

    def __init__(self, run: Run = _run, command: str | None = None) -> None:
        found = command or _command()
        if found is None:
            raise NotAvailable(f"none of the commands {', '.join(COMMANDS)} is installed")
        self._command, self._run = found, run
        try:
            self._devices = self._discover()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise NotAvailable(f"{found} cannot be used: {error}") from error

    def _discover(self) -> dict[int, dict[str, Any]]:
        listed = json.loads(self._run([self._command, "discovery", "-j"]))
        numbers = [int(device["device_id"]) for device in listed.get("device_list", ())]
        return {number: self._described(number) for number in numbers}

    def _described(self, number: int) -> dict[str, Any]:
        told = json.loads(self._run([self._command, "discovery", "-d", str(number), "-j"]))
        return dict(told)

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """What each device tells now, by its number."""
        chosen = None if selection is None else [name.rpartition(":")[2] for name in selection]
        rows = self._dump() if self._devices else {}
        return {
            number: self._reading(number, rows.get(number, []))
            for number in self._devices
            if wanted(chosen, number, "*")
        }

    def _dump(self) -> dict[int, list[str]]:
        command = [self._command, "dump", "-d", "-1", "-m", METRICS, "-n", "1"]
        rows = list(csv.reader(self._run(command).splitlines(), skipinitialspace=True))
        # The first column is the time, the second the device's number.
        return {int(row[1]): row[2:] for row in rows if len(row) > 2 and row[1].isdigit()}

    def _reading(self, number: int, row: list[str]) -> dict[str, Any]:
        load, power, celsius, used = [*map(_number, row), None, None, None, None][:4]
        device = self._devices[number]
        size = _number(str(device.get("memory_physical_size_byte", "")))
        total = None if size is None else size / MIB
        return self.entry(
            number,
            str(device.get("device_name", "Intel GPU")),
            memory={"used": used, "total": total},
            utilization={
                "compute": None if load is None else load / 100,
                "memory": used / total if used is not None and total else None,
            },
            temperature=celsius,
            power=power,
        )

    def system_info(self) -> dict[str, Any]:
        """The version of the driver."""
        versions = {str(d.get("driver_version", "")) for d in self._devices.values()} - {""}
        return {"DRIVER_VERSION": ", ".join(sorted(versions))} if versions else {}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "N/A"
        return None
