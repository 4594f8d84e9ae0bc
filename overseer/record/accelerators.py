"""Versions of torch and what it was built with, and the GPUs of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .machine import ROOT, known


def torch_facts() -> dict[str, object] | None:
    """What torch is, when the script imported it; nothing is imported or initialised here."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    built = getattr(torch, "version", None)
    facts = {
        "version": _text(lambda: torch.__version__),
        "cuda": _text(lambda: getattr(built, "cuda", None)),
        "hip": _text(lambda: getattr(built, "hip", None)),
        "cudnn": _text(lambda: torch.backends.cudnn.version()),
        "nccl": _text(lambda: ".".join(map(str, sys.modules["torch.cuda.nccl"].version()))),
        "threads": _value(lambda: int(torch.get_num_threads())),
        "seed": _value(lambda: int(torch.initial_seed())),
    }
    return known(facts) or None


def _value(read: Callable[[], Any]) -> Any:
    # Builds differ in what they have, and a script may put its own object in torch's place.
    try:
        return read()
    except Exception:
        return None


def _text(read: Callable[[], Any]) -> str | None:
    value = _value(read)
    return None if value is None else str(value)


def nvidia_present(root: Path = ROOT) -> bool:
    """Whether an NVIDIA driver is loaded, or (WSL) its library is there."""
    places = ("proc/driver/nvidia/version", "dev/nvidiactl", "usr/lib/wsl/lib/libnvidia-ml.so.1")
    return any((root / place).exists() for place in places)


def nvidia_driver(root: Path = ROOT) -> str | None:
    """The version of the loaded NVIDIA driver."""
    with suppress(OSError):
        words = (root / "proc/driver/nvidia/version").read_text().partition("\n")[0].split()
        return next((word for word in words if word[:1].isdigit() and "." in word), None)
    return None


def nvidia(root: Path = ROOT) -> dict[str, object] | None:
    """Driver and GPUs: name, UUID, power limit (W), memory (bytes) and clocks (MHz).

    By way of NVML where pynvml is installed, else what the driver's own files tell.
    """
    if not nvidia_present(root):
        return None
    devices = _by_nvml() or _by_files(root)
    return known({"driver": nvidia_driver(root), "devices": devices or None}) or None


def _by_files(root: Path) -> list[dict[str, object]]:
    found = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        with suppress(OSError):
            pairs = dict(_pair(line) for line in path.read_text().splitlines())
            found.append(known({"name": pairs.get("Model"), "uuid": pairs.get("GPU UUID")}))
    return found


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key.strip(), value.strip()


def _by_nvml() -> list[dict[str, object]]:
    import importlib

    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # Not installed, or the library and the driver do not match.
        return []
    try:
        count = nvml.nvmlDeviceGetCount()
        return [_device(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    except Exception:
        return []
    finally:
        _value(nvml.nvmlShutdown)  # It counts: a monitor's own use of the library goes on.


def _device(nvml: Any, handle: Any) -> dict[str, object]:
    clocks = {
        "sm": _value(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "memory": _value(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
    }
    return known(
        {
            "name": _decoded(lambda: nvml.nvmlDeviceGetName(handle)),
            "uuid": _decoded(lambda: nvml.nvmlDeviceGetUUID(handle)),
            "power_limit": _value(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
            "memory": _value(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
            "max_clocks": known(clocks) or None,
        }
    )


def _decoded(read: Callable[[], Any]) -> str | None:
    value = _value(read)  # Bytes, in older versions of pynvml.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else _text(lambda: value)
