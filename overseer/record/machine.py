"""The machine a run was on, read from files: nothing is started, nothing is invented."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")


def kernel() -> str:
    """The operating system, its release and the architecture."""
    name = os.uname()
    return f"{name.sysname} {name.release} {name.machine}"


def cpu(root: Path = ROOT) -> dict[str, object]:
    """Processor model, number of processors, those this process may use, and the governor."""
    facts: dict[str, object] = {"model": _cpu_model(root), "count": os.cpu_count()}
    if hasattr(os, "sched_getaffinity"):
        facts["affinity"] = ranges(os.sched_getaffinity(0))
    facts["governor"] = _line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return known(facts)


def _cpu_model(root: Path) -> str | None:
    # The first few kilobytes: the whole file is slow to make on a machine of 256 processors.
    with suppress(OSError), (root / "proc/cpuinfo").open("rb", buffering=0) as file:
        for line in file.read(4096).decode("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "cpu model", "cpu"):
                return value.strip() or None
    return None


def memory_bytes() -> int | None:
    """The memory of the machine, in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def load_average() -> list[float] | None:
    """Processes that wanted to run, on average over 1, 5 and 15 minutes."""
    try:
        return [round(load, 2) for load in os.getloadavg()]
    except (OSError, AttributeError):
        return None


def container(environ: Mapping[str, str], root: Path = ROOT) -> dict[str, object] | None:
    """The kind of container and its limits; ``None`` outside of one, and without limits."""
    facts = {"kind": _container_kind(environ, root), **_limits(root)}
    return known(facts) or None


def _container_kind(environ: Mapping[str, str], root: Path) -> str | None:
    if "APPTAINER_CONTAINER" in environ or "SINGULARITY_CONTAINER" in environ:
        return "apptainer"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    if (root / ".singularity.d").is_dir():
        return "apptainer"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    return environ.get("container") or _by_cgroup(root)


def _by_cgroup(root: Path) -> str | None:
    groups = _text(root / "proc/1/cgroup") or ""
    names = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"))
    return next((kind for word, kind in names if word in groups), None)


def _limits(root: Path) -> dict[str, object]:
    """The control group's limits: what the machine has is not what the run may use."""
    group = root / "sys/fs/cgroup"
    own = (_text(root / "proc/self/cgroup") or "").rpartition("::/")[2].strip()
    for directory in (group / own, group) if own and ".." not in own else (group,):
        limits: dict[str, object] = {
            "cpus": _cpu_limit(directory),
            "memory": _memory_limit(directory),
        }
        if known(limits):
            return limits
    return {}


def _cpu_limit(group: Path) -> float | None:
    quota, _, period = (_line(group / "cpu.max") or "").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _memory_limit(group: Path) -> int | None:
    limit = _line(group / "memory.max") or ""
    return int(limit) if limit.isdigit() else None


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as ``taskset`` writes them: ``0-3,8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def known(facts: Mapping[str, object]) -> dict[str, object]:
    """``facts`` without those that are not known."""
    return {key: value for key, value in facts.items() if value is not None}


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None


def _line(path: Path) -> str | None:
    return (_text(path) or "").strip() or None
