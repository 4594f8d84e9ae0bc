"""Reads the limits of control groups, which containers set below the machine's resources.

Both versions are read. Any ancestor may set a limit. Usage is read at the level of the limit, which
its siblings share.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

V1, V2 = "cgroup v1", "cgroup v2"


class Limit:
    """A limit of a control group.

    Attributes:
        amount: Bytes, or processors; a quota may grant a fraction of one.
        source: ``cgroup v1`` or ``cgroup v2``.
        directory: The group's.
    """

    def __init__(self, amount: float, source: str, directory: str) -> None:
        self.amount, self.source, self.directory = amount, source, directory

    def bytes_used(self) -> int | None:
        """Bytes in use as Kubernetes and Docker define it: usage minus inactive file pages."""
        v2 = self.source == V2
        usage = _number(f"{self.directory}/{'memory.current' if v2 else 'memory.usage_in_bytes'}")
        # In version 1 only total_inactive_file includes descendant groups.
        name = "inactive_file" if v2 else "total_inactive_file"
        cache = _table(f"{self.directory}/memory.stat").get(name, 0)
        return None if usage is None else max(0, usage - cache)

    def seconds_used(self) -> float | None:
        """Processor seconds since the group was created; None if unknown."""
        if self.source == V2:
            usec = _table(f"{self.directory}/cpu.stat").get("usage_usec")
            return None if usec is None else usec / 1e6
        nsec = _number(f"{self.directory}/cpuacct.usage")
        return None if nsec is None else nsec / 1e9


def memory_limit(machine: float, root: str = "") -> Limit | None:
    """The lowest memory limit below ``machine`` bytes, if a control group sets one."""
    return _lowest("memory", _bytes, machine, root)


def cpu_limit(machine: float, root: str = "") -> Limit | None:
    """The lowest processor quota below ``machine`` processors, if a control group sets one."""
    return _lowest("cpu", _quota, machine, root)


def _lowest(
    controller: str, read: Callable[[str], float | None], machine: float, root: str
) -> Limit | None:
    found = [
        Limit(amount, source, directory)
        for source, directory in _directories(controller, root)
        if (amount := read(directory)) is not None and amount < machine
    ]
    return min(found, key=lambda limit: limit.amount, default=None)


def _bytes(directory: str) -> int | None:
    limit = _number(f"{directory}/memory.max")
    return _number(f"{directory}/memory.limit_in_bytes") if limit is None else limit


def _quota(directory: str) -> float | None:
    """The processor quota over its period, from either version's files."""
    quota, _, period = text_in(f"{directory}/cpu.max").partition(" ")
    if not quota:
        quota = text_in(f"{directory}/cpu.cfs_quota_us")
        period = text_in(f"{directory}/cpu.cfs_period_us")
    numbers = quota.isdigit() and period.isdigit()
    return int(quota) / int(period) if numbers and int(quota) and int(period) else None


def _directories(controller: str, root: str) -> Iterator[tuple[str, str]]:
    """Version and directory of this process's groups for ``controller``, leaf first."""
    for line in (text_in(f"{root}/proc/self/cgroup") or "0::/").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            mount = f"{root}/sys/fs/cgroup"
            if text_in(f"{mount}/unified/cgroup.controllers"):
                mount += "/unified"  # A hybrid hierarchy: both versions are mounted.
            yield from ((V2, directory) for directory in _upwards(mount, path))
        elif controller in controllers.split(","):
            mount = f"{root}/sys/fs/cgroup/{controller}"
            yield from ((V1, directory) for directory in _upwards(mount, path))


def _upwards(mount: str, path: str) -> Iterator[str]:
    """``path`` below ``mount`` and its ancestors, the mount itself last.

    In a container the path may be the host's, or lead out by ``..``: missing files are no limit,
    and the mount is the container's own group.
    """
    parts = [] if ".." in path.split("/") else [part for part in path.split("/") if part]
    for length in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:length]])


def text_in(path: str | os.PathLike[str]) -> str:
    """The text of a small system file; empty if it is missing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _number(path: str) -> int | None:
    """The number in a file; None for ``max``, ``-1``, a missing file and others."""
    text = text_in(path)
    return int(text) if text.isdigit() else None


def _table(path: str) -> dict[str, int]:
    """A file's lines of a name and a number, as a dict."""
    rows = (line.split() for line in text_in(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
