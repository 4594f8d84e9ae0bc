"""Describes the machine and its GPUs without initialising a device."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .cgroup import cpu_limit, memory_limit, text_in

ROOT = Path("/")
#: Signs of containers: variables, files, words in process 1's control group.
_VARIABLES = {
    "APPTAINER_CONTAINER": "apptainer",
    "SINGULARITY_CONTAINER": "apptainer",
    "KUBERNETES_SERVICE_HOST": "kubernetes",
}
_FILES = {".singularity.d": "apptainer", ".dockerenv": "docker", "run/.containerenv": "podman"}
_GROUPS = {"kubepods": "kubernetes", "docker": "docker", "libpod": "podman", "lxc": "lxc"}
#: Files of an NVIDIA driver; the last one is WSL's.
_DRIVERS = ("proc/driver/nvidia/version", "dev/nvidiactl", "usr/lib/wsl/lib/libnvidia-ml.so.1")


def kernel() -> str:
    """The operating system, its release and the architecture."""
    name = os.uname()
    return f"{name.sysname} {name.release} {name.machine}"


def cpu(root: Path = ROOT) -> dict[str, object]:
    """Processor model, count, processors that this process may use, governor."""
    facts: dict[str, object] = {"model": _cpu_model(root), "count": os.cpu_count()}
    if hasattr(os, "sched_getaffinity"):
        facts["affinity"] = ranges(os.sched_getaffinity(0))
    facts["governor"] = (
        text_in(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None
    )
    return known(facts)


def _cpu_model(root: Path) -> str | None:
    # The first kilobytes: the kernel is slow to produce the file for 256 processors.
    with suppress(OSError), (root / "proc/cpuinfo").open("rb", buffering=0) as file:
        for line in file.read(4096).decode("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model", "cpu"):
                return value.strip() or None
    return None


def memory_bytes() -> int | None:
    """The memory of the machine, in bytes."""
    found: int | None = value(lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return found


def load_average() -> list[float] | None:
    """Load averages over 1, 5 and 15 minutes."""
    found: list[float] | None = value(lambda: [round(load, 2) for load in os.getloadavg()])
    return found


def container(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, object] | None:
    """The kind of container and its limits; ``None`` without either."""
    top = os.fspath(root).rstrip("/")
    cpus = cpu_limit(float(os.cpu_count() or math.inf), top)
    memory = memory_limit(float(memory_bytes() or math.inf), top)
    facts = {
        "kind": _container_kind(environ, root),
        "cpus": cpus.amount if cpus else None,
        "memory": int(memory.amount) if memory else None,
    }
    return known(facts) or None


def _container_kind(environ: Mapping[str, str], root: Path) -> str | None:
    group = text_in(root / "proc/1/cgroup")
    signs = (
        *(kind for name, kind in _VARIABLES.items() if name in environ),
        *(kind for name, kind in _FILES.items() if (root / name).exists()),
        environ.get("container"),
        *(kind for word, kind in _GROUPS.items() if word in group),
    )
    return next((kind for kind in signs if kind), None)


def gpus(root: Path = ROOT) -> dict[str, object] | None:
    """NVIDIA's driver and GPUs: name, UUID, power limit (W), memory (bytes) and clocks (MHz).

    Read by NVML if pynvml is installed, otherwise from the driver's files.
    """
    if not any((root / place).exists() for place in _DRIVERS):
        return None
    words = text_in(root / _DRIVERS[0]).partition("\n")[0].split()
    driver = next((word for word in words if word[:1].isdigit() and "." in word), None)
    devices = value(_by_nvml) or _by_files(root)  # Library and driver may not match.
    return known({"driver": driver, "devices": devices or None}) or None


def _by_files(root: Path) -> list[dict[str, object]]:
    found = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        lines = (line.partition(":") for line in text_in(path).splitlines())
        pairs = {key.strip(): text.strip() for key, _, text in lines}
        found.append(known({"name": pairs.get("Model"), "uuid": pairs.get("GPU UUID")}))
    return found


def _by_nvml() -> list[dict[str, object]]:
    import importlib

    nvml: Any = importlib.import_module("pynvml")
    nvml.nvmlInit()
    try:
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        return [_device(nvml, handle) for handle in handles]
    finally:
        value(nvml.nvmlShutdown)  # NVML counts users: a monitor may still use it.


def _device(nvml: Any, handle: Any) -> dict[str, object]:
    clocks = {
        "sm": value(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "memory": value(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
    }
    return known(
        {
            "name": text(lambda: nvml.nvmlDeviceGetName(handle)),
            "uuid": text(lambda: nvml.nvmlDeviceGetUUID(handle)),
            "power_limit": value(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
            "memory": value(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
            "max_clocks": known(clocks) or None,
        }
    )


def ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ``taskset`` does: ``0-3,8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def known(facts: Mapping[str, object]) -> dict[str, object]:
    """``facts`` without unknown ones."""
    return {key: value for key, value in facts.items() if value is not None}


def value(read: Callable[[], Any]) -> Any:
    """The result of ``read``; None if it fails."""
    try:
        return read()
    except Exception:
        return None


def text(read: Callable[[], Any]) -> str | None:
    """The result as text; some versions of pynvml return bytes."""
    found = value(read)
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return None if found is None else str(found)
