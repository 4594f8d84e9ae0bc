"""What the script's own processes use: load, memory and bytes, children included."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from overseer.clock import Clock
from overseer.measure.growth import Growth, Stepped

from .cpu import usable_cores
from .memory import MemorySource
from .meter import stepped_in
from .process_tree import ProcessTree, Usage, require, usage_of
from .sampling import Monitor, Running, Sampler, import_psutil

if TYPE_CHECKING:
    import psutil

    from overseer.overseer import Overseer


#: A reading that is so little early is due.
SLACK_NS = 100_000_000
#: Seconds between two looks at the memory of the script's own process.
GLANCE = 0.25
_STATM = "/proc/self/statm"
#: All of a tree is read no more often than takes one part in so many of a processor.
REST = 200


class ProcessLoad:
    """Percent of ``cores`` that a tree of processes used since the last reading and in all.

    Args:
        cores: What 100 percent is.
        cpu_seconds: What the root has used, its ended children included, at ``now_ns``.
        now_ns: When that was.
    """

    def __init__(self, cores: float, cpu_seconds: float, now_ns: int) -> None:
        self._cores = cores
        self._start_ns = self._last_ns = now_ns
        self._before: dict[Any, float] | None = None
        self._total_before = cpu_seconds
        self._used = 0.0
        self.largest = Running()

    def read(self, usage: Usage, now_ns: int) -> float | None:
        """Percent since the last call; ``None`` when no time has passed."""
        seconds = (now_ns - self._last_ns) / 1e9
        if seconds <= 0:
            return None
        total = usage.cpu_seconds
        grown = max(0.0, total - self._total_before)
        self._used += grown
        recent = grown - self._earlier(usage, seconds)
        self._before, self._total_before, self._last_ns = usage.cpu, total, now_ns
        load = self._percent(recent, seconds)
        self.largest.add(load)
        return load

    def _earlier(self, usage: Usage, seconds: float) -> float:
        """What newly found children must have used before this interval: they have one core."""
        if self._before is None:
            return 0.0
        new = (cpu for process, cpu in usage.cpu.items() if process not in self._before)
        return sum(max(0.0, cpu - seconds) for cpu in new)

    def _percent(self, cpu_seconds: float, seconds: float) -> float:
        return round(100 * min(1.0, max(0.0, cpu_seconds / (seconds * self._cores))), 1)

    @property
    def mean(self) -> float | None:
        """Percent from the start to the last reading; ``None`` before the first."""
        seconds = (self._last_ns - self._start_ns) / 1e9
        return self._percent(self._used, seconds) if seconds > 0 else None


class ProcessSampler:
    """Reads what the script's processes use; remembers load, peak memory, and its growth."""

    def __init__(
        self,
        clock: Clock,
        cores: float,
        memory: MemorySource | None = None,
        stepped: Stepped = lambda: None,
    ) -> None:
        self._clock = clock
        self._cores = cores
        self._memory = memory or MemorySource()
        self._tree: ProcessTree | None = None
        self._peak = Running()
        self._growth, self._early = Growth(stepped), Growth(stepped)
        self._load = ProcessLoad(cores, 0.0, clock.now_ns())

    def start(self) -> None:
        """Read the process's own times, so that the first sample tells the load since then."""
        self._load = ProcessLoad(self._cores, sum(os.times()[:4]), self._clock.now_ns())

    def read(self) -> dict[str, object] | None:
        """One ``process`` event: the whole tree under the script's process number.

        Raises:
            OSError: It cannot be read what the script's own process uses.
        """
        tree = self._tree = self._tree or self._plant()
        processes = tree.processes()
        usage, now_ns = usage_of(processes), self._clock.now_ns()
        if processes[0] not in usage.cpu:
            require(processes[0])
            return None
        memory = tree.memory(usage)
        self._peak.add(memory)
        self._growth.add(now_ns / 1e9, memory)
        load = self._load.read(usage, now_ns)
        return {
            "pid": processes[0].pid,
            **({} if load is None else {"load": load}),
            **_processor(processes[0]),
            **usage.io,
            "memory": [memory, self._memory.read()[1]],
            "children": len(usage.cpu) - 1,
        }

    def glance(self) -> None:
        """Look at the memory of the script's own process alone, which takes no time."""
        try:
            with open(_STATM, "rb", buffering=0) as file:
                pages = int(file.read().split()[1])
        except (OSError, ValueError, IndexError):
            return  # Another system: short runs say nothing of their memory there.
        self._early.add(self._clock.now_ns() / 1e9, pages * _page_size())

    @property
    def weighing_ns(self) -> int:
        """Processor time that went into finding what children inherited, which bounds itself."""
        return self._tree.weighing_ns if self._tree else 0

    def _plant(self) -> ProcessTree:
        psutil = import_psutil()

        return ProcessTree(psutil.Process(), self._clock)

    def summarise(self, summary: dict[str, Any]) -> None:
        """Add the script's share to ``host.cpu`` and ``host.memory``, under ``process``."""
        if not self._peak.n:
            return
        host = summary.setdefault("host", {})
        load = {**self._load.largest.mean_max(), "mean": self._load.mean}
        host.setdefault("cpu", {})["process"] = load
        memory: dict[str, Any] = {"peak": self._peak.greatest}
        growth = self._growth if self._growth.tells else self._early
        if (grown := growth.grown()) is not None:
            memory["growth"] = grown._asdict()
        host.setdefault("memory", {})["process"] = memory


class Glancing:
    """A process sampler that is asked more often than it reads everything.

    Memory that grows shows in a run of a few seconds, too, if it is looked at often enough. A tree
    of hundreds of processes is read less often than it was asked for: that takes its time.

    Args:
        inner: The sampler.
        clock: Tells when it is due.
        seconds: How often it reads everything.
    """

    def __init__(self, inner: ProcessSampler, clock: Clock, seconds: float) -> None:
        self._inner, self._clock = inner, clock
        self._every_ns = int(seconds * 1e9) - SLACK_NS
        self._due_ns = clock.now_ns()
        self._first = True
        self.start, self.summarise = inner.start, inner.summarise

    def read(self) -> dict[str, object] | None:
        """One ``process`` event when it is due."""
        self._inner.glance()
        now, used = self._clock.now_ns(), self._spent_ns()
        if now < self._due_ns:
            return None
        read = self._inner.read()
        took, self._first = 0 if self._first else self._spent_ns() - used, False  # It imports.
        self._due_ns = now + max(self._every_ns, REST * took)
        return read

    def _spent_ns(self) -> int:
        return self._clock.cpu_ns() - self._inner.weighing_ns


def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _processor(process: psutil.Process) -> dict[str, int]:
    """The number of the processor it ran on last, where the system tells."""
    return {"num": process.cpu_num()} if hasattr(process, "cpu_num") else {}


class Process(Monitor):
    """Emit ``process`` every ``seconds``: the script's process and all processes below it.

    The load is percent of all processors that may be used. Memory is the resident set; of the
    children's, pages that are shared (libraries, tensors in shared memory) are left out, and what
    they have by a fork counts once. The bytes are totals: ``*_chars`` what was asked for,
    ``*_bytes`` what reached a disk.
    """

    key: ClassVar[str] = "process"
    tells: ClassVar[str] = "processes"
    emits: ClassVar[dict[str, str]] = {
        "process.load": "%",
        "process.memory": "B",
        "process.read_bytes": "B",
        "process.write_bytes": "B",
        "process.read_chars": "B",
        "process.write_chars": "B",
        "process.children": "1",
    }

    @property
    def tick(self) -> float:
        """Memory is looked at more often than all of it is read."""
        return min(self.seconds, GLANCE)

    def sampler(self, ov: Overseer) -> Sampler:
        """A fresh sampler for one run."""
        cores = usable_cores().number
        inner = ProcessSampler(ov.clock, cores, stepped=partial(stepped_in, ov))
        return Glancing(inner, ov.clock, self.seconds)
