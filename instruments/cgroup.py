"""The limits that control groups set: what a container may use, rather than what the host has.

Both versions are read. A limit may stand at any level, so every ancestor counts; usage is read at
the level that sets the limit, because siblings there share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class MemoryLimit(NamedTuple):
    """A memory limit in bytes, and how much of it is used."""

    total: int
    source: str
    directory: str

    def used(self) -> int | None:
        """Bytes in use, without the file cache that the kernel would hand back first.

        The working set as Kubernetes and Docker define it: usage less inactive file pages.
        """
        v2 = self.source == "cgroup v2"
        usage = _number(f"{self.directory}/{'memory.current' if v2 else 'memory.usage_in_bytes'}")
        if usage is None:
            return None
        stat = _table(f"{self.directory}/memory.stat")
        # In version 1 inactive_file leaves out the groups below, total_inactive_file does not.
        cache = stat.get("inactive_file" if v2 else "total_inactive_file", 0)
        return max(0, usage - cache)


class CpuLimit(NamedTuple):
    """A quota in cores, and the processor seconds used by those who share it."""

    cores: float
    source: str
    directory: str

    def used_seconds(self) -> float | None:
        """Processor seconds since the group was made; ``None`` when it does not say."""
        if self.source == "cgroup v2":
            usec = _table(f"{self.directory}/cpu.stat").get("usage_usec")
            return None if usec is None else usec / 1e6
        nsec = _number(f"{self.directory}/cpuacct.usage")
        return None if nsec is None else nsec / 1e9


def memory_limit(machine: int, root: str = "") -> MemoryLimit | None:
    """The tightest memory limit below ``machine`` bytes, if a control group sets one."""
    found = [
        MemoryLimit(limit, source, directory)
        for source, directory in _directories("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(f"{directory}/{name}")) is not None and limit < machine
    ]
    return min(found, key=lambda limit: limit.total, default=None)


def cpu_limit(machine: float, root: str = "") -> CpuLimit | None:
    """The tightest processor quota below ``machine`` cores, if a control group sets one."""
    found = [
        CpuLimit(cores, source, directory)
        for source, directory in _directories("cpu", root)
        if (cores := _quota(directory)) is not None and cores < machine
    ]
    return min(found, key=lambda limit: limit.cores, default=None)


def _quota(directory: str) -> float | None:
    """Cores granted: the quota over its period, in either version's files."""
    words = _read(f"{directory}/cpu.max").split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        quota, period = int(words[0]), int(words[1])
    else:
        quota = _number(f"{directory}/cpu.cfs_quota_us") or 0
        period = _number(f"{directory}/cpu.cfs_period_us") or 0
    return quota / period if quota > 0 and period > 0 else None


def _directories(controller: str, root: str) -> Iterator[tuple[str, str]]:
    """Version and directory of this process's groups that may hold ``controller``, leaf first."""
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            mount = f"{root}/sys/fs/cgroup"
            if not _read(f"{mount}/cgroup.controllers"):
                mount += "/unified"  # A hybrid hierarchy: both versions are mounted.
            yield from (("cgroup v2", d) for d in _upwards(mount, path))
        elif controller in controllers.split(","):
            mount = f"{root}/sys/fs/cgroup/{controller}"
            yield from (("cgroup v1", d) for d in _upwards(mount, path))


def _upwards(mount: str, path: str) -> Iterator[str]:
    """``path`` below ``mount`` and its ancestors, the mount itself last.

    Inside a container the path may be the host's, or lead out by ``..``; files that are not there
    read as no limit, and the mount is the container's own group.
    """
    parts = [] if ".." in path.split("/") else [part for part in path.split("/") if part]
    for length in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:length]])


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    """The one number in a file; ``None`` for ``max``, ``-1``, a missing file or anything else."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _table(path: str) -> dict[str, int]:
    """A file of ``name number`` lines; others are left out."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
