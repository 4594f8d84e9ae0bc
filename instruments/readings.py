"""Functions that read the machine: each call of what they return is one reading, as a dict.

For instruments of one's own (:func:`instruments.polling.monitor`) and for tools without a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overseer.clock import Clock

from .cpu import CpuSampler, load_of, usable_cores
from .disk import FIELDS as DISK_FIELDS
from .memory import MemorySource
from .network import FIELDS as NETWORK_FIELDS
from .process import ProcessLoad
from .process_tree import ProcessTree, usage_of

Reading = dict[str, Any]


def cpu_monitor() -> Callable[[], Reading]:
    """``memory`` [used, total] bytes, and ``load``: percent of the usable processors.

    The load is that since the last reading; of the first, since this call.
    """
    cores = usable_cores()
    sampler = CpuSampler(cores, load_of(cores, Clock()))
    sampler.start()
    return lambda: {"load": 0.0, **sampler.read()}


def process_monitor(pid: int, recursive: bool = True) -> Callable[[], Reading]:
    """What a process uses: ``load`` in percent of the usable processors, ``memory``, bytes.

    Args:
        pid: The process.
        recursive: With all processes below it.
    """
    return _ProcessReader(pid, recursive)


class _ProcessReader:
    def __init__(self, pid: int, recursive: bool) -> None:
        import psutil

        self._pid, self._clock = pid, Clock()
        self._root = psutil.Process(pid)
        self._tree = ProcessTree(self._root, self._clock) if recursive else None
        self._memory = MemorySource()
        self._used: Reading = {}
        spent = usage_of([self._root]).cpu_seconds
        self._load = ProcessLoad(usable_cores().number, spent, self._clock.now_ns())

    def __call__(self) -> Reading:
        processes = self._tree.processes() if self._tree is not None else [self._root]
        usage = usage_of(processes)
        load = self._load.read(usage, self._clock.now_ns())
        memory = self._tree.memory(usage) if self._tree is not None else usage.memory
        return {
            "pid": self._pid,
            "load": 0.0 if load is None else load,
            **self._processor(),
            **usage.io,
            "memory": [memory, self._memory.read()[1]],
        }

    def _processor(self) -> Reading:
        """The number of the processor it ran on last, where the system tells."""
        import psutil

        try:
            return {"num": self._root.cpu_num()}
        except (AttributeError, psutil.Error):
            return {}


def io_monitor(perdisk: bool = False) -> Callable[[], Reading]:
    """Counts and bytes that the disks read and wrote, and ms they took, since this call.

    Args:
        perdisk: A dict for each disk.
    """
    start = _disks(perdisk)

    def monitor() -> Reading:
        now = _disks(perdisk)
        if not perdisk:
            return _since(start.get("", {}), now.get("", {}))
        return {disk: _since(start.get(disk, {}), counters) for disk, counters in now.items()}

    return monitor


def _since(start: Reading, now: Reading) -> Reading:
    """How far counters have come; a disk that was not there at the start began at 0."""
    return {name: value - start.get(name, 0) for name, value in now.items()}


def _disks(each: bool) -> dict[str, Reading]:
    import psutil

    counters: Any = psutil.disk_io_counters  # Its stubs know literal arguments only.
    return _counters(counters(perdisk=each), DISK_FIELDS)


def network_monitor(pernic: bool = False) -> Callable[[], Reading]:
    """Bytes, packets, errors and drops of the network since the machine's start.

    Args:
        pernic: A dict for each interface.
    """

    def monitor() -> Reading:
        import psutil

        counters: Any = psutil.net_io_counters
        found = _counters(counters(pernic=pernic), NETWORK_FIELDS)
        return dict(found) if pernic else found.get("", {})

    return monitor


def _counters(found: Any, fields: tuple[str, ...]) -> dict[str, Reading]:
    """Counters of each device by its name; of all together under an empty one."""
    each = found if isinstance(found, dict) else {} if found is None else {"": found}
    return {
        str(name): {field: getattr(counters, field, 0) for field in fields}
        for name, counters in each.items()
    }
