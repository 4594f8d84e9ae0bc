"""Habana's devices (Gaudi), by HLML."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from .device import DeviceReader, NotAvailable, Number, wanted

MIB = 1024 * 1024


def is_installed() -> bool:
    """Whether the package pyhlml is installed."""
    return find_spec("pyhlml") is not None


class DeviceSMI(DeviceReader):
    """Reads Habana's devices, all of the machine's."""

    arch: ClassVar[str] = "hpu"
    variable: ClassVar[str] = "HABANA_VISIBLE_MODULES"

    def __init__(self) -> None:
        try:
            self._hlml: Any = import_module("pyhlml")
        except ImportError as error:
            raise NotAvailable("pyhlml is not installed: pip install pyhlml") from error
        try:
            self._hlml.hlmlInit()
            count = self._hlml.hlmlDeviceGetCount()
            self._handles = {n: self._hlml.hlmlDeviceGetHandleByIndex(n) for n in range(count)}
        except Exception as error:  # The binding raises a class for each of HLML's codes.
            raise NotAvailable(f"HLML cannot be used: {error}") from error

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """What each device tells now, by its number."""
        return {
            number: self._reading(number, handle)
            for number, handle in self._handles.items()
            if wanted(selection, number, _text(self._ask("hlmlDeviceGetUUID", handle)))
        }

    def _reading(self, number: int, handle: Any) -> dict[str, Any]:
        memory = self._ask("hlmlDeviceGetMemoryInfo", handle)
        load = self._ask("hlmlDeviceGetUtilizationRates", handle)
        milliwatts = self._ask("hlmlDeviceGetPowerUsage", handle)
        used = None if memory is None else memory.used / MIB
        total = None if memory is None else memory.total / MIB
        return self.entry(
            number,
            _text(self._ask("hlmlDeviceGetName", handle)),
            memory={"used": used, "total": total},
            utilization={
                "compute": None if load is None else load / 100,
                "memory": used / total if used is not None and total else None,
            },
            temperature=self._ask("hlmlDeviceGetTemperature", handle, 0),
            power=None if milliwatts is None else milliwatts / 1000,
        )

    def _ask(self, function: str, *args: Any) -> Any:
        """The answer of HLML; ``None`` for what this device does not tell."""
        try:
            return getattr(self._hlml, function)(*args)
        except Exception:
            return None


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
