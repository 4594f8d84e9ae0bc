"""The script's process and those below it: found cheaply, counted once each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from overseer.clock import Clock

if TYPE_CHECKING:
    import psutil

#: How long a look at the tree holds when nothing shows that it changed.
LOOK_SECONDS = 10.0
#: Pages are weighed no more often than takes one part in so many of the time, which is 0.2 %.
SELDOM = 500
#: What weighing a byte takes, while nobody knows: a GiB of small pages 7 ms, of large ones 2.
WEIGHING_NS = 7e6 / (1 << 30)
#: The first time may take so much more at once, so that short runs have it.
FIRST_NS = 30_000_000


class ProcessTree:
    """A process and its descendants, looked up again only when something shows a change.

    The kernel lists the children of each thread in a small file; those of the main threads are
    compared at every call. Where the kernel has no such files, the process table is searched, and
    only every ten seconds.

    Args:
        root: The process at the top.
        clock: Decides when ten seconds have passed.
        proc: Where the process file system is mounted.
    """

    def __init__(self, root: psutil.Process, clock: Clock, proc: str = "/proc") -> None:
        self._root = root
        self._clock = clock
        self._proc = proc
        self._below: dict[int, psutil.Process] = {}
        self._looked_ns: int | None = None
        self._signature: list[bytes | None] = []
        self._inherited = Inherited(clock, proc)

    def processes(self) -> list[psutil.Process]:
        """The process itself, then its descendants, each once."""
        if self._stale():
            self._look()
        return [self._root, *self._below.values()]

    def memory(self, usage: Usage) -> int:
        """What the processes have in memory, bytes; what children share, or inherited, once."""
        return usage.memory - self._inherited.excess(usage)

    @property
    def weighing_ns(self) -> int:
        """Processor time that went into finding what children inherited."""
        return self._inherited.spent_ns

    def _stale(self) -> bool:
        now = self._clock.now_ns()
        if self._looked_ns is None or now - self._looked_ns >= LOOK_SECONDS * 1e9:
            return True
        return self._sign() != self._signature

    def _sign(self) -> list[bytes | None]:
        return [self._children_file(pid, pid) for pid in (self._root.pid, *self._below)]

    def _children_file(self, pid: int, thread: int) -> bytes | None:
        try:
            with open(f"{self._proc}/{pid}/task/{thread}/children", "rb") as file:
                return file.read()
        except OSError:
            return None

    def _look(self) -> None:
        self._looked_ns = self._clock.now_ns()
        listed = self._children_file(self._root.pid, self._root.pid) is not None
        self._below = self._walk() if listed else self._search()
        self._signature = self._sign()

    def _search(self) -> dict[int, psutil.Process]:
        return {child.pid: child for child in self._root.children(recursive=True)}

    def _walk(self) -> dict[int, psutil.Process]:
        found: dict[int, psutil.Process] = {}
        waiting = [self._root.pid]
        while waiting:
            for pid in self._children(waiting.pop()):
                child = self._known(pid)
                if child is not None and pid not in found:
                    found[pid] = child
                    waiting.append(pid)
        return found

    def _children(self, pid: int) -> Iterable[int]:
        try:
            with os.scandir(f"{self._proc}/{pid}/task") as threads:
                files = [self._children_file(pid, int(thread.name)) for thread in threads]
        except OSError:
            return []  # It ended meanwhile.
        return [int(child) for content in files for child in (content or b"").split()]

    def _known(self, pid: int) -> psutil.Process | None:
        """The process with this number, the same object as before unless the number was reused."""
        import psutil

        try:
            before = self._below.get(pid)
            return before if before and before.is_running() else psutil.Process(pid)
        except psutil.Error:
            return None


class Usage:
    """What the processes of a tree use together at one moment.

    ``cpu`` holds each process's seconds with those of its children that have ended and been waited
    for: the kernel adds a child's time to its parent's only then, so nothing is counted twice and
    nothing is lost when a child ends. It does the same with bytes read and written.

    ``memory`` is all that is resident, ``anonymous`` what of it is no file's and no shared memory.
    """

    def __init__(self) -> None:
        self.cpu: dict[psutil.Process, float] = {}
        self.resident: dict[psutil.Process, int] = {}
        self.anonymous: dict[psutil.Process, int] = {}
        self.memory = 0
        self.io: dict[str, int] = {}

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds of the whole tree."""
        return sum(self.cpu.values())


def usage_of(processes: list[psutil.Process]) -> Usage:
    """Add up what ``processes`` use, the first of them being the root; those gone are left out."""
    import psutil

    usage = Usage()
    for process in processes:
        try:
            with process.oneshot():
                _add(usage, process)
        except (psutil.Error, OSError):
            continue  # It ended, or belongs to somebody else.
    return usage


def require(process: psutil.Process) -> None:
    """Say what keeps a process, which cannot be gone, from telling what it uses.

    Raises:
        OSError: The system, or psutil, refuses.
    """
    import psutil

    try:
        with process.oneshot():
            _add(Usage(), process)
    except psutil.Error as error:
        raise OSError(str(error)) from error


def _add(usage: Usage, process: psutil.Process) -> None:
    times, memory = process.cpu_times(), process.memory_info()
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    shared = getattr(memory, "shared", 0)
    # Libraries and shared tensors are in every worker's resident set; the root's counts them.
    usage.memory += memory.rss - shared if usage.cpu else memory.rss
    usage.resident[process], usage.anonymous[process] = memory.rss, memory.rss - shared
    usage.cpu[process] = times.user + times.system + ended
    if hasattr(process, "io_counters"):  # macOS has none.
        _add_io(usage.io, process)


def _add_io(io: dict[str, int], process: psutil.Process) -> None:
    import psutil

    try:
        counters = process.io_counters()
    except (psutil.Error, OSError):
        return
    for name in ("read_bytes", "write_bytes", "read_chars", "write_chars"):
        if hasattr(counters, name):
            io[name] = io.get(name, 0) + getattr(counters, name)


class Inherited:
    """How much forked children have from their parents: it is in the resident sets of all of them.

    Once one of them has written to it there are two of it, but that shows in no resident set. A
    child that was only just found is taken to have inherited as much as there was. Later the kernel
    is asked for each one's part of what they share. It walks through all their pages for that, so
    it is asked no more often than costs little; what a resident set grows by meanwhile is its own.

    Args:
        clock: Tells when it is time to ask again, and what it took.
        proc: Where the process file system is mounted.

    Attributes:
        spent_ns: The processor time that the asking took.
    """

    def __init__(self, clock: Clock, proc: str = "/proc") -> None:
        self._clock = clock
        self._proc = proc
        self._excess: dict[psutil.Process, int] = {}
        self._before: dict[psutil.Process, int] = {}
        self._weighed_ns = clock.now_ns()
        self._spare_ns = FIRST_NS
        self._byte_ns = WEIGHING_NS
        self.spent_ns = 0

    def excess(self, usage: Usage) -> int:
        """Bytes that are counted more than once where the resident sets are added up."""
        held = usage.anonymous
        families = self._families(held) if len(held) > 1 else []
        excess = {
            child: self._last(child, head, held) for head, *forked in families for child in forked
        }
        # One that was not there before may be about to run a program, in its parent's own memory.
        known = self._excess.keys() >= excess.keys()
        size = sum(usage.resident[process] for family in families for process in family)
        wait = SELDOM * (self._byte_ns * size - self._spare_ns)
        if excess and known and self._clock.now_ns() - self._weighed_ns >= wait:
            began = self._clock.cpu_ns()
            weighed = self._weighed(families, held)
            took = self._clock.cpu_ns() - began
            self._weighed_ns, self._spare_ns = self._clock.now_ns(), 0
            self._byte_ns = took / size if weighed else self._byte_ns
            self.spent_ns += took
            excess.update(weighed)
        self._excess, self._before = excess, held
        return sum(excess.values())

    def _families(self, processes: Iterable[psutil.Process]) -> list[list[psutil.Process]]:
        """Those that come from one another by forks alone, the eldest first."""
        found: dict[tuple[bytes, ...], list[psutil.Process]] = {}
        for process in processes:
            image = self._image(process.pid)
            if image:
                found.setdefault(image, []).append(process)
        return [family for family in found.values() if len(family) > 1]

    def _image(self, pid: int) -> tuple[bytes, ...]:
        """Where program, stack, arguments and environment are: the same only after a fork."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return ()
        image = (*fields[23:26:2], *fields[45:49])
        return image if len(image) == 6 and b"0" not in image else ()  # They may be kept secret.

    def _last(
        self, child: psutil.Process, head: psutil.Process, held: dict[psutil.Process, int]
    ) -> int:
        """What was known last; of a new child as much as the eldest has, or had before it came."""
        most = self._excess.get(child)
        if most is None:
            most = max(held[head], self._before.get(head, 0))
        return min(most, held[child])

    def _weighed(
        self, families: list[list[psutil.Process]], held: dict[psutil.Process, int]
    ) -> dict[psutil.Process, int]:
        """What each child has that is counted already; empty where the kernel does not tell."""
        found: dict[psutil.Process, int] = {}
        try:
            for head, *forked in families:
                # Each page is told in equal parts by those that have it; of the eldest all counts.
                counted = (held[head] - self._part(head.pid)) // len(forked)
                for child in forked:
                    own = max(0, self._part(child.pid) - counted)
                    found[child] = held[child] - own
        except OSError:
            return {}  # One has ended, or is somebody else's, or the kernel is an old one.
        return found

    def _part(self, pid: int) -> int:
        """A process's memory, bytes; what others have, too, is divided among all that have it."""
        with open(f"{self._proc}/{pid}/smaps_rollup", "rb", buffering=0) as file:
            told = file.read().partition(b"Pss_Anon:")[2].split(maxsplit=1)
        if not told:
            raise OSError(f"nothing is told of process {pid}")
        return int(told[0]) << 10
