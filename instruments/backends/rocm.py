"""AMD's devices, by what the kernel's driver amdgpu shows in ``/sys``: no library is needed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from .device import DeviceReader, NotAvailable, Number, wanted

MIB = 1024 * 1024
CARDS = Path("/sys/class/drm")
AMD = "0x1002"


def is_installed() -> bool:
    """Whether the driver is loaded."""
    return Path("/sys/module/amdgpu").is_dir()


class DeviceSMI(DeviceReader):
    """Reads AMD's devices, all of the machine's.

    Args:
        cards: Where the kernel shows its graphics devices.
    """

    arch: ClassVar[str] = "rocm"
    variable: ClassVar[str] = "ROCR_VISIBLE_DEVICES"

    def __init__(self, cards: Path = CARDS) -> None:
        found = [card / "device" for card in cards.glob("card*") if card.name[4:].isdigit()]
        ours = [device for device in found if _text(device / "vendor") == AMD]
        self._devices = sorted(
            (device for device in ours if (device / "mem_info_vram_total").exists()),
            key=lambda device: device.resolve().name,  # The PCI address, as ROCm numbers them.
        )
        if not self._devices:
            raise NotAvailable(f"there is no device of AMD's in {cards}")

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """What each device tells now, by its number."""
        return {
            number: self._reading(number, device)
            for number, device in enumerate(self._devices)
            if wanted(selection, number, f"GPU-{_text(device / 'unique_id')}")
        }

    def _reading(self, number: int, device: Path) -> dict[str, Any]:
        used, total = (
            _number(device / "mem_info_vram_used"),
            _number(device / "mem_info_vram_total"),
        )
        sensors = next(iter((device / "hwmon").glob("hwmon*")), device)
        power = _number(sensors / "power1_average") or _number(sensors / "power1_input")
        return self.entry(
            number,
            _text(device / "product_name") or "AMD GPU",
            memory={"used": _scaled(used, MIB), "total": _scaled(total, MIB)},
            utilization={
                "compute": _scaled(_number(device / "gpu_busy_percent"), 100),
                "memory": used / total if used is not None and total else None,
            },
            temperature=_scaled(_number(sensors / "temp1_input"), 1000),
            power=_scaled(power, 1_000_000),
        )

    def system_info(self) -> dict[str, Any]:
        """The version of the driver, where it is not the kernel's own."""
        version = _text(Path("/sys/module/amdgpu/version"))
        return {"ROCM_KERNEL_DRIVER_VERSION": version} if version else {}


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _number(file: Path) -> float | None:
    try:
        return float(_text(file))
    except ValueError:
        return None


def _scaled(value: float | None, unit: int) -> float | None:
    return None if value is None else value / unit
