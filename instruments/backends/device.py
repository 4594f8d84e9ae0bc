"""What every maker's file offers: a reader of devices, in one shape."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, ClassVar

#: A device's number, or a name where the maker's tools number differently.
Number = int | str


class NotAvailable(Exception):
    """This machine has no device of that kind, or what is needed to ask it is missing."""


class DeviceReader:
    """Reads the devices of one maker.

    Attributes:
        arch: How the kind is called: ``cuda``, ``rocm``, ``hpu``, ``xpu``, ``cpu``.
        variable: The environment variable that says which devices a script may use.

    Raises:
        NotAvailable: When made: there is nothing to read.
    """

    arch: ClassVar[str]
    variable: ClassVar[str] = ""

    @property
    def visible_devices(self) -> str | None:
        """The value of the variable; ``None`` when it is not set."""
        return os.environ.get(self.variable) if self.variable else ""

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """What each device tells now, by its number.

        Args:
            selection: Numbers or unique names of those wanted, as text; all when not given.

        Returns:
            For each: ``device``, ``product``, ``memory`` {used, total} MiB, ``utilization``
            {compute, memory} 0 to 1, ``temperature`` Celsius, ``power`` W,
            ``selection_variable``. What it does not tell is ``None``.
        """
        raise NotImplementedError

    def system_info(self) -> dict[str, Any]:
        """Versions of the driver and what belongs to it; empty where they are not known."""
        return {}

    def close(self) -> None:
        """Let go of the devices."""

    def entry(self, device: Number, product: str, **told: Any) -> dict[str, Any]:
        """One device in the shape that :meth:`get_gpus_info` promises."""
        shape = {
            "device": device,
            "product": product,
            "memory": {"used": None, "total": None},
            "utilization": {"compute": None, "memory": None},
            "temperature": None,
            "power": None,
            "selection_variable": self.variable,
        }
        return {**shape, **told}


def wanted(selection: Collection[str] | None, *names: object) -> bool:
    """Whether a device with these names is selected."""
    return selection is None or any(str(name) in selection for name in names)
