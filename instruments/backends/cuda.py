"""NVIDIA's devices, by NVML."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from ..nvml import Device, Nvml
from .device import DeviceReader, NotAvailable, Number, wanted


def is_installed() -> bool:
    """Whether the package nvidia-ml-py is installed."""
    return find_spec("pynvml") is not None


class DeviceSMI(DeviceReader):
    """Reads NVIDIA's devices, all of the machine's."""

    arch: ClassVar[str] = "cuda"
    variable: ClassVar[str] = "CUDA_VISIBLE_DEVICES"

    def __init__(self) -> None:
        try:
            self._library = import_module("pynvml")
        except ImportError as error:
            why = 'nvidia-ml-py is not installed: pip install "voir-overseer[gpu]"'
            raise NotAvailable(why) from error
        try:
            self._nvml = Nvml(self._library)
        except Exception as error:  # Another package may have that name.
            raise NotAvailable(f"NVML cannot be used: {error}") from error

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """What each device tells now, by its number; a device that is lost is left out."""
        readings: dict[Number, Any] = {}
        for device in self._nvml.visible(None):
            if wanted(selection, device.index, device.uuid):
                try:
                    data = device.read()
                except self._nvml.error:
                    continue
                if data:
                    readings[device.index] = self._reading(device, data)
        return readings

    def _reading(self, device: Device, data: dict[str, Any]) -> dict[str, Any]:
        used, total = data.get("memory", (None, None))
        share = used / total if used is not None and total else None
        return self.entry(
            device.index,
            device.name,
            memory={"used": used, "total": total},
            utilization={"compute": data.get("load"), "memory": share},
            temperature=data.get("temperature"),
            power=data.get("power"),
        )

    def system_info(self) -> dict[str, Any]:
        """Versions of the driver, of CUDA as the driver has it, and of NVML."""
        asked = {
            "CUDA_DRIVER": "nvmlSystemGetCudaDriverVersion_v2",
            "DRIVER_VERSION": "nvmlSystemGetDriverVersion",
            "NVML_VERSION": "nvmlSystemGetNVMLVersion",
        }
        told = {}
        for name, function in asked.items():
            try:
                told[name] = getattr(self._library, function)()
            except (AttributeError, self._nvml.error):
                continue
        return told
