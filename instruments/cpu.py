"""The load of the processors this process may use, and memory in use beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from overseer.clock import Clock

from .cgroup import CpuLimit, cpu_limit
from .memory import MemorySource
from .sampling import Monitor, Running

if TYPE_CHECKING:
    from overseer.overseer import Overseer

#: Time in use and time there was, both since some moment and in one unit.
Counters = tuple[float, float]


class Cores(NamedTuple):
    """How many processors this process may use, and what says so.

    Attributes:
        number: Cores; a quota may grant a fraction.
        limited_by: ``affinity``, ``cgroup v1`` or ``cgroup v2``; ``None`` for the whole machine.
        allowed: The processors' numbers when affinity leaves some out.
        quota: The control group's quota when that is what limits.
    """

    number: float
    limited_by: str | None = None
    allowed: frozenset[int] | None = None
    quota: CpuLimit | None = None


def usable_cores(root: str = "") -> Cores:
    """The processors this process may use: the machine's, its affinity's or its quota's."""
    machine = os.cpu_count() or 1
    allowed = _affinity(machine)
    cores = len(allowed) if allowed else machine
    quota = cpu_limit(cores, root)
    if quota:
        return Cores(quota.cores, quota.source, allowed, quota)
    return Cores(cores, "affinity" if allowed else None, allowed)


def _affinity(machine: int) -> frozenset[int] | None:
    """The allowed processors when they are fewer than the machine's."""
    if sys.platform != "linux":
        return None
    allowed = frozenset(os.sched_getaffinity(os.getpid()))  # The script's, not this thread's.
    return allowed if len(allowed) < machine else None


def linux_counters(allowed: frozenset[int] | None = None, path: str = "/proc/stat") -> Counters:
    """Busy and total ticks since boot, of all processors or of those ``allowed``.

    Read here and not through psutil, so that the baseline at the script's start costs no import.
    """
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file if line.startswith("cpu")]
    wanted = {"cpu"} if allowed is None else {f"cpu{number}" for number in allowed}
    rows = [[int(word) for word in line[1:9]] for line in lines if line[0] in wanted]
    # user nice system idle iowait irq softirq steal; guest time is within user and nice already.
    total = sum(map(sum, rows))
    return total - sum(row[3] + row[4] for row in rows), total


def psutil_counters() -> Counters:
    """Busy and total seconds since boot, where there is no /proc/stat."""
    import psutil

    times = psutil.cpu_times()
    return sum(times) - times.idle, sum(times)


class Load:
    """Percent of the processors in use since the last reading, and over the whole run.

    Args:
        counters: Read at each call.
    """

    def __init__(self, counters: Callable[[], Counters]) -> None:
        self._counters = counters
        self._first: Counters | None = None
        self._last: Counters | None = None

    def read(self) -> float | None:
        """Percent since the last call; ``None`` at the first one and when no time has passed."""
        now, before = self._counters(), self._last
        self._first = self._first or now
        self._last = now
        return _percent(before, now)

    @property
    def mean(self) -> float | None:
        """Percent between the first and the last reading, whatever their spacing."""
        return _percent(self._first, self._last)


def _percent(before: Counters | None, now: Counters | None) -> float | None:
    if before is None or now is None or now[1] <= before[1]:
        return None
    share = (now[0] - before[0]) / (now[1] - before[1])
    return round(100 * min(1.0, max(0.0, share)), 1)


def load_of(cores: Cores, clock: Clock) -> Load:
    """The load of what ``cores`` says may be used: a quota's, some processors', the machine's."""
    quota = cores.quota
    if quota and quota.used_seconds() is not None:
        return Load(lambda: (quota.used_seconds() or 0.0, clock.now_ns() / 1e9 * quota.cores))
    if sys.platform == "linux":
        return Load(lambda: linux_counters(cores.allowed))
    return Load(psutil_counters)


class CpuSampler:
    """Reads the processors' load and the memory in use; remembers the load's mean and maximum."""

    def __init__(self, cores: Cores, load: Load, memory: MemorySource | None = None) -> None:
        self._cores = cores
        self._load = load
        self._memory = memory or MemorySource()
        self._samples = Running()

    def start(self) -> None:
        """Read the counters, so that the first sample tells the load since the script began."""
        if sys.platform == "linux":  # Elsewhere this would import psutil on the script's time.
            self._load.read()

    def read(self) -> dict[str, object]:
        """``memory`` as ``[used, total]`` bytes, and ``load`` in percent once it is known."""
        used, total, _ = self._memory.read()
        load = self._load.read()
        self._samples.add(load)
        return {"memory": [used, total], **({} if load is None else {"load": load})}

    def summarise(self, summary: dict[str, Any]) -> None:
        """Fill ``host.cpu``: mean and maximum percent, of how many cores, and what limits them."""
        if not self._samples.n:
            return
        entry = summary.setdefault("host", {}).setdefault("cpu", {})
        entry.update(mean=self._load.mean, max=self._samples.greatest, cores=self._cores.number)
        if self._cores.limited_by:
            entry["limited_by"] = self._cores.limited_by


class Cpu(Monitor):
    """Emit ``cpudata`` every ``seconds``: the processors' load, and memory in use.

    The load is percent of the processors that may be used: those of the machine, of the process's
    affinity, or of its control group's quota. Off Linux the first event has no load.
    """

    key: ClassVar[str] = "cpudata"
    tells: ClassVar[str] = "processors"
    emits: ClassVar[dict[str, str]] = {"cpudata.load": "%", "cpudata.memory": "B"}

    def sampler(self, ov: Overseer) -> CpuSampler:
        """A fresh sampler for one run."""
        cores = usable_cores()
        return CpuSampler(cores, load_of(cores, ov.clock))
