"""Samples the script's process and its descendants, each counted once."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from overseer.model.catalogue import SOURCES
from overseer.model.growth import Growth

from ..measuring import stepped_in
from ..sampling import REST, Monitor, Running
from .host import machine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import psutil

    from overseer import Overseer
    from overseer.clock import Clock

PROC = "/proc"
#: How often all threads are asked for their children, and memory is weighed.
LOOK_NS = 10_000_000_000


class Tree:
    """A process and, unless ``alone``, all processes below it.

    The kernel lists the children of each thread in a small file. Those of main threads are read
    each time, those of all threads every ten seconds. Where there are no such files, the table of
    processes is searched every ten seconds.

    Attributes:
        root: The process at the top.
        memory: What they have in memory at the last reading, in bytes; what is shared, once.
        io: Bytes read and written: ``*_chars`` what was asked for, ``*_bytes`` what reached a disk.
        children: How many processes there are beside the root.
        number: The processor that the root ran on last, as :func:`number` has it.
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
        """Read what they use now; the processor seconds that they have used since the last time.

        Raises:
            psutil.Error: The process at the top tells nothing.
        """
        import psutil

        if not self._alone:
            self._find(now_ns)
        cpu, resident, io = dict[int, float](), dict[int, int](), dict[str, int]()
        for pid, process in [(self.root.pid, self.root), *self._below.items()]:
            try:
                with process.oneshot():
                    # With those of ended children: a child's time moves to its parent's then.
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
        # What a child that was found late had used before is not of this interval.
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
                    with suppress(psutil.Error):  # It may have ended meanwhile.
                        self._below[pid] = known.get(pid) or psutil.Process(pid)
                        waiting.append(pid)

    # Memory

    def _counted(self, resident: dict[int, int]) -> int:
        """What is in memory, without what several have: known of each since it was weighed.

        Until it is weighed, of a new child only what it grows by counts: it may have all that its
        parent has, by a fork, or be about to run a program of its own.
        """
        new = {pid: 0 if pid == self.root.pid else size for pid, size in resident.items()}
        alone = len(resident) == 1
        shared = new if alone else {**new, **self._shared}
        self._shared = {pid: min(shared[pid], size) for pid, size in resident.items()}
        return sum(resident.values()) - sum(self._shared.values())

    def weigh(self, now_ns: int) -> None:
        """Ask the kernel for each process's part of what they share, when it is time to.

        It walks through all their pages: that is done every ten seconds, and less often if it
        takes long.
        """
        import psutil

        if now_ns < self._weigh_ns or len(self._shared) < 2:
            return
        began = self._clock.cpu_ns()
        for pid in self._shared:
            with suppress(psutil.Error):  # It has ended, or is somebody else's.
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
        return  # It has ended meanwhile.


def add_io(io: dict[str, Any], process: psutil.Process) -> None:
    """Add the bytes that a process has read and written to ``io``, where the system tells."""
    import psutil

    try:
        counters = process.io_counters()
    except (AttributeError, psutil.Error):
        return  # macOS has none, and another user's are kept secret.
    for name in ("read_bytes", "write_bytes", "read_chars", "write_chars"):
        if hasattr(counters, name):
            io[name] = io.get(name, 0) + getattr(counters, name)


def number(process: psutil.Process) -> dict[str, int]:
    """The number of the processor that it ran on last, where the system tells."""
    return {"num": process.cpu_num()} if hasattr(process, "cpu_num") else {}


class Process(Monitor):
    """Emit ``process`` every ``seconds``: the script's process and all processes below it.

    The load is percent of all processors that may be used. Memory is the resident set, shared
    pages counted once. The bytes are totals.
    """

    key, tells, glances = "process", "processes", True
    emits = SOURCES["process"].units

    def begin(self, ov: Overseer) -> None:
        """Prepare to read in this run."""
        self._machine, self._clock = machine_of(ov), ov.clock
        self._peak = Running()
        stepped = partial(stepped_in, ov)
        self._growth, self._early = Growth(stepped), Growth(stepped)

    def read(self, now_ns: int) -> dict[str, Any]:
        """One ``process`` event: the whole tree under the script's process number."""
        if self._machine.tree is None:
            self._machine.tree = Tree(os.getpid(), self._clock)
            self._machine.tree.read(now_ns)  # Others may have looked at this moment already.
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
        """Look at the script's own process alone, until there are enough samples of all."""
        assert self._machine.tree is not None
        if not self._growth.known:
            self._early.add(now_ns / 1e9, self._machine.tree.root.memory_info().rss)
        self._machine.tree.weigh(now_ns)

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Add the script's share to ``host.cpu`` and ``host.memory``, under ``process``."""
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
