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

    def processes(self) -> list[psutil.Process]:
        """The process itself, then its descendants, each once."""
        if self._stale():
            self._look()
        return [self._root, *self._below.values()]

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
    """

    def __init__(self) -> None:
        self.cpu: dict[psutil.Process, float] = {}
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


def _add(usage: Usage, process: psutil.Process) -> None:
    times, memory = process.cpu_times(), process.memory_info()
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    # Libraries and shared tensors are in every worker's resident set; the root's counts them.
    shared = getattr(memory, "shared", 0) if usage.cpu else 0
    usage.memory += memory.rss - shared
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
