"""The one place where time is read.

Durations come from the monotonic clock; wall time is an anchor, read at the start of a run.
Everything that measures takes a :class:`Clock`, so that tests decide what time it is.

A script may patch ``time``: its tests give a clock a list of answers. So the C functions are bound
here, when voir begins, and whatever else reads a clock while a script runs has them from here: it
may be imported after the script has patched them, and must not take answers meant for the script.
"""

from __future__ import annotations

import time
from functools import partial

#: What the thread that loads voir had used of the processor when that began.
BEGUN_CPU_NS = time.thread_time_ns()
#: The monotonic clock in nanoseconds, as a plain C function for hot paths.
now_ns = time.perf_counter_ns
perf_counter, monotonic, sleep = time.perf_counter, time.monotonic, time.sleep
gmtime, strftime = time.gmtime, time.strftime
time_ns, thread_time_ns = time.time_ns, time.thread_time_ns
#: Nanoseconds since the machine was started, its sleep included; None where there is no such clock.
boottime_ns = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
)


def process_start(pid: int) -> int:
    """When a process was started, in the system's clock ticks; 0: unknown, -1: it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])  # Its parent has not asked yet.
    except (OSError, ValueError, IndexError):
        return 0


class Clock:
    """The machine's clocks: ``now_ns`` for durations, ``wall_ns`` for anchors."""

    #: Nanoseconds on the monotonic clock; only differences mean anything. The C function itself:
    #: a step reads it half a dozen times.
    now_ns = staticmethod(time.perf_counter_ns)

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; it may jump, so never subtract two of these."""
        return time_ns()

    def cpu_ns(self) -> int:
        """Processor nanoseconds the calling thread has used."""
        return thread_time_ns()
