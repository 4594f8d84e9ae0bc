"""Reads time, and adds up the processor time that voir itself uses.

Durations come from the monotonic clock; wall time is an anchor, read once when a run starts.
Code that measures takes a :class:`Clock`, so that tests can set the time.

A script may patch ``time``, for example to return a list of fixed values. The C functions are
therefore bound here when voir starts, and all code that reads a clock while a script runs imports
them from this module: it must neither see patched functions nor consume the script's values.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from threading import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Processor time of the loading thread when voir's import began.
BEGUN_CPU_NS = time.thread_time_ns()
#: The monotonic clock in nanoseconds, as a plain C function for hot paths.
now_ns = time.perf_counter_ns
perf_counter, monotonic, sleep = time.perf_counter, time.monotonic, time.sleep
gmtime, strftime = time.gmtime, time.strftime
time_ns, thread_time_ns = time.time_ns, time.thread_time_ns
process_time_ns = time.process_time_ns
#: Nanoseconds since boot, including time asleep; None if there is no such clock.
boottime_ns = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else None
)


def process_start(pid: int) -> int:
    """Start time of a process in clock ticks of the system; 0 if unknown, -1 if it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])  # A zombie.
    except (OSError, ValueError, IndexError):
        return 0


class Clock:
    """The machine's clocks: ``now_ns`` for durations, ``wall_ns`` for anchors."""

    #: Nanoseconds on the monotonic clock; use differences only. It is the C function itself because
    #: each step reads it several times.
    now_ns = staticmethod(time.perf_counter_ns)

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch. It may jump: do not subtract two of these."""
        return time_ns()

    def cpu_ns(self) -> int:
        """Processor time of the calling thread in nanoseconds."""
        return thread_time_ns()


class Overhead:
    """Adds up voir's own processor time; create it on the script's main thread.

    Each part is timed where it arises. The sum is a lower bound: voir's code also evicts the
    script's from the processor's caches, which slows the script down.

    Args:
        cpu_ns: Returns the processor time of the calling thread.
        since_ns: Processor time of this thread when voir started; default: now.
    """

    def __init__(self, cpu_ns: Callable[[], int], since_ns: int | None = None) -> None:
        self._cpu_ns, self._thread = cpu_ns, get_ident()
        self._since = cpu_ns() if since_ns is None else since_ns
        self._outside = self._charged = 0
        self._inside = False

    @contextmanager
    def script(self) -> Iterator[None]:
        """Attribute this thread's time within the block to the script, and the rest to voir."""
        self._outside += self._cpu_ns() - self._since
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            self._since = self._cpu_ns()

    def charge(self, ns: int) -> None:
        """Add processor time that voir used inside the script, or on another thread."""
        if self._inside or get_ident() != self._thread:
            self._charged += ns

    @property
    def outside_ns(self) -> int:
        """Processor time of this thread before and after the script."""
        if self._inside or get_ident() != self._thread:
            return self._outside
        return self._outside + self._cpu_ns() - self._since

    def total_ns(self, recorded_ns: int) -> int:
        """Total so far, including ``recorded_ns`` spent on recording."""
        return self.outside_ns + self._charged + recorded_ns

    def section(self, recorded_ns: int, run_ns: int) -> dict[str, float]:
        """Return the section ``overhead`` of ``run.json``; unknown values are left out.

        Args:
            recorded_ns: Time spent on recording: ``own`` in the recorder's header.
            run_ns: Duration of the run so far.
        """
        own = self.total_ns(recorded_ns)
        found = {"seconds": own / 1e9, "outside": self.outside_ns / 1e9}
        return {**found, "share": min(1.0, own / run_ns)} if run_ns > 0 else found
