"""Samples the script's process and its descendants."""

from __future__ import annotations

import os
from contextlib import suppress

from overseer.model.catalogue import METRIC_GROUPS
from overseer.model.growth import Growth

from ..sampling import REST, MachineMonitor, Running
from .host import machine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import psutil

    from overseer import Overseer
    from overseer.clock import Clock

PROC = "/proc"
#: Interval of the searches that cost more: children of all threads, proportional memory.
LOOK_NS = 10_000_000_000


class Tree:
    """A process and, unless ``alone``, its descendants.

    The kernel lists the children of each thread in a small file. The main threads' files are read
    at each sample, those of all threads every ten seconds. Without such files, the process table
    is searched every ten seconds.

    Attributes:
        root: The process at the top.
        memory: Resident bytes at the last sample, shared pages counted once.
        io: Bytes read and written: ``*_chars`` as requested, ``*_bytes`` as they reached a disk.
        children: Count of descendants.
        number: The processor that the root ran on last, as :func:`number` returns it.
    """

    def __init__(self, pid: int, clock: Clock, alone: bool = False) -> None:
        import psutil

        self.root = psutil.Process(pid)
        self.memory, self.io, self.children = 0, dict[str, int](), 0
        self.number: dict[str, int] = {}
        self._clock, self._alone = clock, alone
        self._listed = os.path.exists(f"{PROC}/{pid}/task/{pid}/children")
        self._below: dict[int, psutil.Process] = {}
        self._cpu: dict[int, float] | None = None
        self._shared: dict[int, int] = {}
        self._last_ns = self._look_ns = self._weigh_ns = 0

    def read(self, now_ns: int) -> float:
        """Sample all processes; return their processor seconds since the last sample.

        Raises:
            psutil.Error: The root process cannot be read.
        """
        import psutil

        if not self._alone:
            self._find(now_ns)
        cpu, resident, io = dict[int, float](), dict[int, int](), dict[str, int]()
        for pid, process in [(self.root.pid, self.root), *self._below.items()]:
            try:
                with process.oneshot():
                    # Includes ended children, whose time moves to their parent.
                    seconds = sum(process.cpu_times()[:4])
                    resident[pid], cpu[pid] = process.memory_info().rss, seconds
                    add_io(io, process)
                    if process is self.root:
                        self.number = number(process)
            except psutil.Error:
                if process is self.root:
                    raise
                del self._below[pid]
        self.memory, self.io, self.children = self._counted(resident), io, len(cpu) - 1
        return self._spent(cpu, now_ns)

    def _spent(self, cpu: dict[int, float], now_ns: int) -> float:
        before, seconds = self._cpu, (now_ns - self._last_ns) / 1e9
        self._cpu, self._last_ns = cpu, now_ns
        if before is None:
            return 0.0
        # A child found late used part of its time before this interval.
        earlier = sum(max(0.0, cpu[pid] - seconds) for pid in cpu.keys() - before.keys())
        return max(0.0, sum(cpu.values()) - sum(before.values()) - earlier)

    def _find(self, now_ns: int) -> None:
        import psutil

        everywhere, known = now_ns >= self._look_ns, self._below
        if everywhere:
            self._look_ns = now_ns + LOOK_NS
            known = {pid: process for pid, process in known.items() if process.is_running()}
            table = [] if self._listed else self.root.children(recursive=True)
            self._below = {process.pid: process for process in table}
        waiting = [self.root.pid, *self._below] if self._listed else []
        while waiting:
            for pid in _children(waiting.pop(), everywhere):
                if pid not in self._below:
                    with suppress(psutil.Error):  # It may have ended.
                        self._below[pid] = known.get(pid) or psutil.Process(pid)
                        waiting.append(pid)

    # Memory

    def _counted(self, resident: dict[int, int]) -> int:
        """Sum the resident sizes, minus the pages that :meth:`weigh` found to be shared.

        A new child may share all its pages with its parent, by a fork: until it is weighed, only
        its growth counts.
        """
        new = {pid: 0 if pid == self.root.pid else size for pid, size in resident.items()}
        alone = len(resident) == 1
        shared = new if alone else {**new, **self._shared}
        self._shared = {pid: min(shared[pid], size) for pid, size in resident.items()}
        return sum(resident.values()) - sum(self._shared.values())

    def weigh(self, now_ns: int) -> None:
        """Update each process's share of common pages (PSS), every ten seconds at most.

        The kernel walks all their pages for it, so that a slow update is repeated less often.
        """
        import psutil

        if now_ns < self._weigh_ns or len(self._shared) < 2:
            return
        began = self._clock.cpu_ns()
        for pid in self._shared:
            with suppress(psutil.Error):  # It has ended, or belongs to another user.
                full = self._below.get(pid, self.root).memory_full_info()
                part = getattr(full, "pss", full.rss - getattr(full, "shared", 0))
                self._shared[pid] = max(0, full.rss - part)
        self._weigh_ns = now_ns + max(LOOK_NS, 2 * REST * (self._clock.cpu_ns() - began))


def _children(pid: int, everywhere: bool) -> Iterator[int]:
    """The children of a process's main thread, or of all its threads."""
    try:
        for thread in os.listdir(f"{PROC}/{pid}/task") if everywhere else [pid]:
            with open(f"{PROC}/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                yield from map(int, file.read().split())
    except OSError:
        return  # It has ended.


def add_io(io: dict[str, Any], process: psutil.Process) -> None:
    """Add a process's bytes read and written to ``io``, where the system provides them."""
    import psutil

    try:
        counters = process.io_counters()
    except (AttributeError, psutil.Error):
        return  # macOS has no counters, and another user's are not readable.
    for name in ("read_bytes", "write_bytes", "read_chars", "write_chars"):
        if hasattr(counters, name):
            io[name] = io.get(name, 0) + getattr(counters, name)


def number(process: psutil.Process) -> dict[str, int]:
    """The processor that the process ran on last, where the system provides it."""
    return {"num": process.cpu_num()} if hasattr(process, "cpu_num") else {}


class ProcessTree(MachineMonitor):
    """Emit ``process`` every ``seconds``: the script's process and its descendants.

    The load is percent of all usable processors. Memory is the resident set, shared pages counted
    once. I/O bytes are totals.
    """

    key, tells, glances = "process", "processes", True
    emits = METRIC_GROUPS["process"].units

    def begin(self, ov: Overseer) -> None:
        """Prepare to read in this run."""
        self._machine, self._clock = machine_of(ov), ov.clock
        self._peak = Running()
        stepped = ov.measuring.stepped
        self._growth, self._early = Growth(stepped), Growth(stepped)

    def read(self, now_ns: int) -> dict[str, Any]:
        """Return one ``process`` event: the whole tree under the script's pid."""
        if self._machine.tree is None:
            self._machine.tree = Tree(os.getpid(), self._clock)
            self._machine.tree.read(now_ns)  # Another monitor may have sampled already.
        self._machine.look(now_ns)
        tree, load = self._machine.tree, self._machine.script.lately()
        self._peak.add(tree.memory)
        self._growth.add(now_ns / 1e9, tree.memory)
        return {
            "pid": tree.root.pid,
            **({} if load is None else {"load": load}),
            **tree.number,
            **tree.io,
            "memory": [tree.memory, self._machine.memory(now_ns)[1]],
            "children": tree.children,
        }

    def glance(self, now_ns: int) -> None:
        """Sample the script's process alone until there are enough samples of the tree."""
        assert self._machine.tree is not None
        if not self._growth.known:
            self._early.add(now_ns / 1e9, self._machine.tree.root.memory_info().rss)
        self._machine.tree.weigh(now_ns)

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Add the script's use to ``host.cpu`` and ``host.memory``, under ``process``."""
        self._machine.last_look(now_ns)
        load = self._machine.script.mean_max()
        if load["mean"] is not None:
            summary.setdefault("host", {}).setdefault("cpu", {})["process"] = load
        if self._peak.n:
            memory: dict[str, Any] = {"peak": self._peak.greatest}
            growth = self._growth if self._growth.known else self._early
            if (grown := growth.grown()) is not None:
                memory["growth"] = grown
            summary.setdefault("host", {}).setdefault("memory", {})["process"] = memory
