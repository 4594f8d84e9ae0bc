"""The process that a trace is of: who it is, and how its clocks relate."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from ..clock import Clock, boottime_ns
from .describe import cut
from .tracks import PROCESS
from .wire import message, number, text


@dataclass(frozen=True)
class Process:
    """Who writes a trace.

    Attributes:
        name: What the viewer calls it.
        now_ns: The monotonic clock at the beginning.
        wall_ns: Nanoseconds since the epoch at that same moment.
        rank: Of a job, if it has one.
    """

    name: str
    now_ns: int
    wall_ns: int
    pid: int = field(default_factory=os.getpid)
    rank: int | None = None
    clocks: Callable[[], dict[str, int]] = dict

    def descriptor(self) -> bytes:
        """A TrackDescriptor with its ProcessDescriptor."""
        process = number(1, self.pid) + text(6, cut(self.name, 200))
        if self.rank is not None:
            process += text(8, f"rank {self.rank}")
        return number(1, PROCESS) + message(3, process)

    def anchors(self) -> dict[str, object]:
        """Moments of several clocks that belong together, and what tells processes apart."""
        known: dict[str, object] = {
            "host": os.uname().nodename if hasattr(os, "uname") else "",
            "boot_id": boot_id(),
            "pid": self.pid,
            "python": sys.version.split()[0],
            **self.clocks(),
        }
        return known if self.rank is None else {**known, "rank": self.rank}


def this_process(name: str, clock: Clock, rank: int | None = None) -> Process:
    """This process, as of now."""

    def clocks() -> dict[str, int]:
        read = {"realtime_ns": clock.wall_ns(), "monotonic_ns": clock.now_ns()}
        if boottime_ns is not None:
            read["boottime_ns"] = boottime_ns()
        return read

    return Process(name, clock.now_ns(), clock.wall_ns(), rank=rank, clocks=clocks)


def boot_id() -> str:
    """What is the same for all processes since the machine was started; empty where unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
