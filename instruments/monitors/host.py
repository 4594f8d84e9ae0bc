"""Samples the machine: processor load, memory in use, disk and network traffic."""

from __future__ import annotations

import os
import sys
from weakref import WeakKeyDictionary

from overseer.model.catalogue import METRIC_GROUPS
from overseer.rundir.cgroup import Limit, cpu_limit, memory_limit

from ..sampling import MachineMonitor, Running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer


#: The last sample, at the script's end, is skipped this soon after the one before.
LAST_SAMPLE_NS = 100_000_000


class Cores:
    """The processors that this process may use, and the limit that applies.

    Attributes:
        number: Count of processors; a quota may grant a fraction of one.
        limited_by: ``affinity``, ``cgroup v1`` or ``cgroup v2``; None for the whole machine.
        allowed: The processors' numbers, if affinity excludes some.
        quota: The control group's quota, if it is the limit.
    """

    def __init__(self, root: str = "") -> None:
        machine = os.cpu_count() or 1
        linux = sys.platform == "linux"
        # The affinity of the process; this thread's may differ.
        allowed = os.sched_getaffinity(os.getpid()) if linux else set[int]()
        self.allowed = allowed if 0 < len(allowed) < machine else None
        self.number: float = len(self.allowed) if self.allowed else machine
        self.limited_by = "affinity" if self.allowed else None
        self.quota = cpu_limit(self.number, root)
        if self.quota is not None:
            self.number, self.limited_by = self.quota.amount, self.quota.source

    def each(self) -> list[tuple[float, float]]:
        """Busy and total seconds of each processor that affinity allows."""
        import psutil

        every = enumerate(psutil.cpu_times(percpu=True))
        return [_used(times) for n, times in every if not self.allowed or n in self.allowed]

    def counters(self, now_ns: int) -> tuple[float, float]:
        """Busy and total time, both since an arbitrary start and in the same unit."""
        used = self.quota.seconds_used() if self.quota is not None else None
        if used is not None:
            return used, now_ns / 1e9 * self.number
        import psutil

        # Reading each of hundreds of processors takes milliseconds.
        each = self.each() if self.allowed else [_used(psutil.cpu_times())]
        return sum(used for used, _ in each), sum(there for _, there in each)


def _used(times: Any) -> tuple[float, float]:
    """Busy and total seconds; guest time is part of user and nice."""
    there = sum(times[:8])
    return there - times.idle - getattr(times, "iowait", 0.0), there


class Share:
    """Processor use in percent: recent, mean and maximum."""

    def __init__(self) -> None:
        self._used = self._there = 0.0
        self._lately = (0.0, 0.0)  # Differences of the sums would add rounding errors.
        self.greatest: float | None = None

    def add(self, used: float, there: float) -> None:
        """Add one interval: the seconds used of the seconds available."""
        self._used, self._there = self._used + used, self._there + there
        self._lately = self._lately[0] + used, self._lately[1] + there
        self.greatest = max(self.greatest or 0.0, _percent(used, there) or 0.0)

    def lately(self) -> float | None:
        """Percent since the last call; None if no time has passed."""
        lately, self._lately = self._lately, (0.0, 0.0)
        return _percent(*lately)

    def mean_max(self) -> dict[str, float | None]:
        """``mean`` and ``max`` since the first sample."""
        return {"mean": _percent(self._used, self._there), "max": self.greatest}


def _percent(used: float, there: float) -> float | None:
    return round(100 * used / there, 1) if there > 0 else None


class Machine:
    """Memory and processor use of the machine, sampled once for all monitors of a run.

    The kernel counts the machine's busy time in ticks and a process's exactly, so the script may
    seem to use more than the machine. Both are read together, and the machine's use is at least
    the script's.

    Attributes:
        cores: The processors that may be used.
        by_core: Whether the load of each processor is read too.
        whole: Whether the machine's use is read, not only the script's.
        tree: The script's processes, if their use is read.
        host: Processor use of the machine.
        script: Processor use of the script.
        limited_by: ``cgroup v1`` or ``cgroup v2`` if a control group limits memory.
    """

    def __init__(self, root: str = "") -> None:
        self.cores, self._root = Cores(root), root
        self.by_core, self._each, self.whole = False, list[tuple[float, float]](), True
        self.tree: Any = None  # A Tree of process.py, which imports this.
        self.host, self.script = Share(), Share()
        self.limited_by: str | None = None
        self._limit: Limit | None = None
        self._memory: tuple[int, tuple[int, int, int]] | None = None
        self._last: tuple[int, float, float] | None = None

    def look(self, now_ns: int) -> None:
        """Sample the processors and the script's processes."""
        last = self._last
        if last is not None and now_ns == last[0]:
            return
        busy, total = self.cores.counters(now_ns) if self.whole else (0.0, 0.0)
        script = self.tree.read(now_ns) if self.tree is not None else 0.0
        self._last = now_ns, busy, total
        if last is not None:
            there = (now_ns - last[0]) / 1e9 * self.cores.number
            passed = total - last[2]
            used = there * (busy - last[1]) / passed if passed > 0 else 0.0
            script = min(script, there)
            self.script.add(script, there)
            self.host.add(min(max(used, script), there), there)

    def loads(self) -> list[int]:
        """Load of each processor in percent since the last call; empty at the first call."""
        before, self._each = self._each, self.cores.each()
        pairs = zip(before, self._each, strict=False)
        return [round(_percent(now[0] - old[0], now[1] - old[1]) or 0.0) for old, now in pairs]

    def last_look(self, now_ns: int | None) -> None:
        """Take a last sample when the script has ended."""
        last = self._last
        if now_ns is not None and last is not None and now_ns - last[0] >= LAST_SAMPLE_NS:
            try:
                self.look(now_ns)
            except Exception:
                return  # The figures end at the sample before.

    def memory(self, now_ns: int) -> tuple[int, int, int]:
        """Bytes used, total and available; within the control group's limit if that is lower."""
        if self._memory is None or self._memory[0] != now_ns:
            self._memory = now_ns, self._read_memory()
        return self._memory[1]

    def _read_memory(self) -> tuple[int, int, int]:
        import psutil

        machine = psutil.virtual_memory()
        if self._memory is None and (limit := memory_limit(machine.total, self._root)) is not None:
            self._limit, self.limited_by = limit, limit.source
        used = self._limit.bytes_used() if self._limit is not None else None
        if self._limit is None or used is None:
            return machine.used, machine.total, machine.available
        total = int(self._limit.amount)
        return used, total, max(0, min(machine.available, total - used))


_machines: WeakKeyDictionary[Overseer, Machine] = WeakKeyDictionary()


def machine_of(ov: Overseer) -> Machine:
    """The one :class:`Machine` that all monitors of a run read."""
    found = _machines.get(ov)
    if found is None:
        found = _machines[ov] = Machine()
    return found


def disks(each: bool = False) -> dict[str, dict[str, int]]:
    """I/O counters since boot by disk, or their sum under an empty name."""
    import psutil

    counters: Any = psutil.disk_io_counters  # Its type stubs accept literal arguments only.
    return _named(counters(perdisk=each), Disk)


def interfaces(each: bool = False) -> dict[str, dict[str, int]]:
    """Counters since boot by network interface, or their sum under an empty name."""
    import psutil

    counters: Any = psutil.net_io_counters
    return _named(counters(pernic=each), Network)


def _named(found: Any, kind: type[MachineMonitor]) -> dict[str, dict[str, int]]:
    each = found if isinstance(found, dict) else {} if found is None else {"": found}
    fields = METRIC_GROUPS[kind.key].metrics
    return {
        str(name): {f: getattr(counters, f) for f in fields if hasattr(counters, f)}
        for name, counters in each.items()
    }


def since(start: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """The growth of counters since ``start``, where a missing one counts as 0."""
    return {name: value - start.get(name, 0) for name, value in now.items()}


class Cpu(MachineMonitor):
    """Emit ``cpudata`` every ``seconds``: processor load and memory in use.

    The load is percent of the usable processors: the machine's, those of the process's affinity,
    or its control group's quota. The first event has no load.
    """

    key, tells = "cpudata", "processors"
    emits = METRIC_GROUPS["cpudata"].units

    def begin(self, ov: Overseer) -> None:
        """Prepare to read in this run."""
        self._machine = machine_of(ov)

    def read(self, now_ns: int) -> dict[str, Any]:
        """Return ``memory`` (used and total bytes), and ``load`` in percent once known.

        Under ``--dash``, ``cores`` is the load of each processor.
        """
        self._machine.look(now_ns)
        load = self._machine.host.lately()
        read: dict[str, Any] = {"memory": [*self._machine.memory(now_ns)[:2]]}
        if load is not None:
            read["load"] = load
        if self._machine.by_core and (loads := self._machine.loads()):
            read["cores"] = loads
        return read

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Fill ``host.cpu``: mean and maximum load, the number of cores and their limit."""
        self._machine.last_look(now_ns)
        load, cores = self._machine.host.mean_max(), self._machine.cores
        if load["mean"] is not None:
            entry = summary.setdefault("host", {}).setdefault("cpu", {})
            entry.update(load, cores=cores.number)
            if cores.limited_by:
                entry["limited_by"] = cores.limited_by


class Memory(MachineMonitor):
    """Emit ``memdata`` every ``seconds``: memory used, total and available."""

    key, tells = "memdata", "memory"
    emits = METRIC_GROUPS["memdata"].units

    def begin(self, ov: Overseer) -> None:
        """Prepare to read in this run."""
        self._machine, self._used, self._total = machine_of(ov), Running(), 0

    def read(self, now_ns: int) -> dict[str, Any]:
        """Return ``memory`` (used and total bytes) and ``available``."""
        used, self._total, available = self._machine.memory(now_ns)
        self._used.add(used)
        return {"memory": [used, self._total], "available": available}

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Fill ``host.memory``: mean, peak and total in bytes, and the limit that applies."""
        if self._used.n:
            entry = summary.setdefault("host", {}).setdefault("memory", {})
            mean = round(self._used.total / self._used.n)
            entry.update(mean=mean, peak=self._used.greatest, total=self._total)
            if self._machine.limited_by:
                entry["limited_by"] = self._machine.limited_by


class Disk(MachineMonitor):
    """Emit ``iodata`` every ``seconds``: the disks' I/O since the first sample."""

    key, tells, silent = "iodata", "disks", True
    emits = METRIC_GROUPS["iodata"].units

    _first: dict[str, int] | None = None

    def read(self, now_ns: int) -> dict[str, int] | None:
        """Return the growth of the counters; None without a disk."""
        now = disks().get("")
        self._first = self._first or now
        return since(self._first, now) if now and self._first else None


class Network(MachineMonitor):
    """Emit ``netdata`` every ``seconds``: bytes, packets, errors and drops since boot."""

    key, tells, silent = "netdata", "network", True
    emits = METRIC_GROUPS["netdata"].units

    def read(self, now_ns: int) -> dict[str, int] | None:
        """Return the counters since boot; None without an interface."""
        return interfaces().get("")
