"""Which maker's devices are read: the one that is asked for, or the one this machine has."""

from __future__ import annotations

from collections.abc import Callable, KeysView
from types import ModuleType
from typing import Any

from overseer.errors import VoirError

from . import cpu, cuda, hpu, rocm, xpu
from .device import DeviceReader, NotAvailable, Number

BACKENDS: dict[str, ModuleType] = {
    "cpu": cpu,
    "cuda": cuda,
    "hpu": hpu,
    "rocm": rocm,
    "xpu": xpu,
}
_selected: list[DeviceReader] = []


def get_backends() -> KeysView[str]:
    """The names of the kinds there are."""
    return BACKENDS.keys()


def selected() -> DeviceReader | None:
    """The reader that :func:`select_backend` chose last; ``None`` before that."""
    return _selected[-1] if _selected else None


def attribute(name: str) -> DeviceReader | None:
    """``DEVICESMI``: the reader that was chosen last, as an attribute of a module.

    Raises:
        AttributeError: It is another name.
    """
    if name == "DEVICESMI":
        return selected()
    raise AttributeError(f"module 'voir.instruments.gpu' has no attribute {name!r}")


def find_monitors() -> dict[str, ModuleType]:
    """The module of each kind of devices that can be read."""
    return dict(BACKENDS)


def deduce_backend() -> str:
    """The kind of devices that this machine has; ``cpu`` when it has none.

    Raises:
        VoirError: It has several, and does not know which is meant.
    """
    suitable = [name for name, backend in BACKENDS.items() if _has_devices(backend)]
    if len(suitable) > 1:
        what = f"this machine has devices of several kinds: {', '.join(suitable)}"
        raise VoirError("gpu-kinds", what, f"Name one: arch={suitable[0]!r}.")
    return suitable[0] if suitable else "cpu"


def _has_devices(backend: ModuleType) -> bool:
    if not backend.is_installed():
        return False
    try:
        return bool(backend.DeviceSMI().get_gpus_info())
    except NotAvailable:
        return False


def select_backend(arch: str | None = None, force: bool = False) -> DeviceReader:
    """The reader of devices of kind ``arch``; of the kind this machine has, when not given.

    Args:
        arch: One of :func:`get_backends`.
        force: Make a new reader, though there is one of the kind.

    Raises:
        NotAvailable: There is no such kind, or no device of it here.
    """
    before = selected()
    if before is not None and not force and arch in (None, before.arch):
        return before
    name = arch or deduce_backend()
    if name not in BACKENDS:
        raise NotAvailable(f"there is no backend {name!r}; there are {', '.join(BACKENDS)}")
    if not BACKENDS[name].is_installed():
        raise NotAvailable(f"what is needed to read {name} devices is not installed here")
    reader: DeviceReader = BACKENDS[name].DeviceSMI()
    if before is not None:
        before.close()
    _selected[:] = [reader]
    return reader


def gpu_info(smi: DeviceReader, visible: bool = True) -> dict[str, Any]:
    """What the devices of ``smi`` tell, under ``gpus``.

    Args:
        smi: The reader.
        visible: Only those that the environment leaves to scripts.
    """
    return {"arch": smi.arch, "gpus": smi.get_gpus_info(_visible(smi) if visible else None)}


def get_gpu_info(arch: str | None = None, visible: bool = True) -> dict[str, Any]:
    """What the devices of kind ``arch`` tell; of the kind this machine has, when not given."""
    return gpu_info(select_backend(arch), visible)


def _visible(smi: DeviceReader) -> list[str] | None:
    named = smi.visible_devices
    return [word.strip() for word in named.split(",")] if named else None


def gpu_monitor() -> Callable[[], dict[Number, dict[str, Any]]]:
    """A function that returns what each visible device tells: the value of ``gpudata``."""

    def monitor() -> dict[Number, dict[str, Any]]:
        smi = selected() or select_backend()
        return {
            gpu["device"]: {
                "memory": [gpu["memory"]["used"], gpu["memory"]["total"]],
                "load": gpu["utilization"]["compute"],
                "temperature": gpu["temperature"],
                "power": gpu["power"],
            }
            for gpu in smi.get_gpus_info(_visible(smi)).values()
        }

    return monitor
