"""The state of the machine around a process, and what disturbed it meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from ..clock import boottime_ns, monotonic
from ..model.comparability import MAX_OTHERS
from ..model.facts import entries, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..model.facts import Facts

#: Seconds by which the clock that counts sleep may differ from the one that does not.
MAX_SLEPT = 1.0
#: Share of the memory that has to be free.
MIN_FREE = 0.02
#: Share of the processors that the host of a virtual machine may take.
MAX_STOLEN = 0.05


class State(NamedTuple):
    """The machine at one moment; None for what it does not tell.

    Attributes:
        awake: Monotonic seconds without sleep.
        elapsed: Seconds with sleep.
        busy: Processor seconds of all programs.
        own: Processor seconds of this process's children that have ended, and its own.
        stolen: Processor seconds taken by the host of a virtual machine.
        load: Load average over a minute.
        mhz: Mean clock of the processors.
        celsius: Highest temperature.
        free: Share of the memory that is available.
    """

    awake: float
    elapsed: float
    busy: float
    own: float
    stolen: float
    load: float | None = None
    mhz: float | None = None
    celsius: float | None = None
    free: float | None = None

    def as_facts(self) -> dict[str, float]:
        """What the record keeps."""
        kept = ("load", "mhz", "celsius", "free")
        return {key: getattr(self, key) for key in kept if getattr(self, key) is not None}


def state() -> State:
    """The machine's state now."""
    import psutil

    times, process = psutil.cpu_times(), os.times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    stolen = getattr(times, "steal", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # In user already.
    busy = sum(times) - idle - stolen - guest
    elapsed = boottime_ns() / 1e9 if boottime_ns else 0.0
    load = mhz = celsius = free = None
    with suppress(Exception):
        load = round(os.getloadavg()[0], 2)
    with suppress(Exception):
        mhz = round(psutil.cpu_freq().current)
    with suppress(Exception):
        heat = psutil.sensors_temperatures().values()
        celsius = max((each.current for sensor in heat for each in sensor), default=None)
    with suppress(Exception):
        memory = psutil.virtual_memory()
        free = round(memory.available / memory.total, 3)
    own = sum(process[:4])
    return State(monotonic(), elapsed, busy, own, stolen, load, mhz, celsius, free)


def disturbed(before: State, after: State, facts: Facts, cores: int | None = None) -> list[str]:
    """What disturbed a process; empty if nothing did.

    Args:
        before: The state at its start.
        after: The state at its end.
        facts: Its ``run.json``.
        cores: The number of processors; None: this machine's.
    """
    return [*_disturbed(before, after, facts, cores or os.cpu_count() or 1)]


def _disturbed(before: State, after: State, facts: Facts, cores: int) -> Iterator[str]:
    seconds = after.awake - before.awake
    slept = (after.elapsed - before.elapsed) - seconds
    if before.elapsed and slept > MAX_SLEPT:
        yield f"the machine slept for {slept:.0f} s"
    if seconds <= 0:
        return
    others = (after.busy - before.busy - (after.own - before.own)) / (seconds * cores)
    if others > MAX_OTHERS:
        yield f"other programs used {100 * others:.0f} % of the processors"
    stolen = (after.stolen - before.stolen) / (seconds * cores)
    if stolen > MAX_STOLEN:
        yield f"the host took {100 * stolen:.0f} % of the processors"
    if after.free is not None and after.free < MIN_FREE:
        yield f"{100 * after.free:.0f} % of the memory was free"
    reasons = {each for device in entries(facts, "devices") for each in part(device, "throttled")}
    if reasons:
        yield f"its GPU was throttled ({', '.join(sorted(reasons))})"


def clocks(facts: Facts) -> dict[str, Any]:
    """Clocks and temperatures of devices while the process ran, as its record has them."""
    found = [
        {key: device[key] for key in ("clocks", "throttled", "temperature") if key in device}
        for device in entries(facts, "devices")
    ]
    return {"devices": found} if any(found) else {}
