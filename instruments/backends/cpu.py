"""No accelerator: a machine that only has processors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from .device import DeviceReader, Number


def is_installed() -> bool:
    """Whether everything needed is there: always."""
    return True


class DeviceSMI(DeviceReader):
    """Reads no device."""

    arch: ClassVar[str] = "cpu"

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """There is none."""
        return {}
