"""The machine's memory, or the container's where that is smaller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .cgroup import MemoryLimit, memory_limit
from .sampling import Monitor, Running, import_psutil

if TYPE_CHECKING:
    from overseer.overseer import Overseer


class MemorySource:
    """Memory in use, total and still available; a control group's own where it sets a limit."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._limit: MemoryLimit | None = None
        self._looked = False

    def read(self) -> tuple[int, int, int]:
        """Bytes used, total and available."""
        psutil = import_psutil()

        machine = psutil.virtual_memory()
        limit = self._limit_below(machine.total)
        used = None if limit is None else limit.used()
        if limit is None or used is None:
            return machine.used, machine.total, machine.available
        return used, limit.total, max(0, min(machine.available, limit.total - used))

    def _limit_below(self, machine: int) -> MemoryLimit | None:
        if not self._looked:
            self._looked = True
            self._limit = memory_limit(machine, self._root)
        return self._limit

    @property
    def limited_by(self) -> str | None:
        """``cgroup v1`` or ``cgroup v2`` when a control group allows less than the machine has."""
        return self._limit.source if self._limit else None


class MemorySampler:
    """Reads memory in use; remembers its mean and peak."""

    def __init__(self, source: MemorySource | None = None) -> None:
        self._source = source or MemorySource()
        self._used = Running()
        self._total = 0

    def start(self) -> None:
        """Memory in use needs no baseline."""

    def read(self) -> dict[str, object]:
        """``memory`` as ``[used, total]`` and ``available``, in bytes."""
        used, self._total, available = self._source.read()
        self._used.add(used)
        return {"memory": [used, self._total], "available": available}

    def summarise(self, summary: dict[str, Any]) -> None:
        """Fill ``host.memory``: mean, peak and total in bytes, and what limits them."""
        if not self._used.n:
            return
        entry = summary.setdefault("host", {}).setdefault("memory", {})
        entry.update(mean=round(self._used.mean), peak=self._used.greatest, total=self._total)
        if self._source.limited_by:
            entry["limited_by"] = self._source.limited_by


class Memory(Monitor):
    """Emit ``memdata`` every ``seconds``: memory in use, total and available.

    ``host.memory`` in the run's record gets the mean and the peak.
    """

    key: ClassVar[str] = "memdata"
    tells: ClassVar[str] = "memory"
    emits: ClassVar[dict[str, str]] = {"memdata.memory": "B", "memdata.available": "B"}

    def sampler(self, ov: Overseer) -> MemorySampler:
        """A fresh sampler for one run."""
        return MemorySampler()
