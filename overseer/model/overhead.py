"""What voir itself has cost a run: the one place that adds it up.

Everything is timed where it arises: recorded calls by the recorder, and the rest in processor time.
The script pays more than that, for voir's code displaces its own from the processor's caches, so
the sum is a lower bound.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Overhead:
    """Voir's own cost; made on the script's main thread.

    Args:
        cpu_ns: The processor time that the calling thread has used.
        since_ns: What this thread had used when voir began; now, when not given.
    """

    def __init__(self, cpu_ns: Callable[[], int], since_ns: int | None = None) -> None:
        self._cpu_ns, self._thread = cpu_ns, get_ident()
        self._since = cpu_ns() if since_ns is None else since_ns
        self._outside = self._charged = 0
        self._inside = False

    @contextmanager
    def script(self) -> Iterator[None]:
        """Within, the time of this thread is the script's; without, it is voir's."""
        self._outside += self._cpu_ns() - self._since
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
            self._since = self._cpu_ns()

    def charge(self, ns: int) -> None:
        """Add processor time that voir used within the script, or on another thread."""
        if self._inside or get_ident() != self._thread:
            self._charged += ns

    @property
    def outside_ns(self) -> int:
        """What this thread has used before and after the script."""
        if self._inside or get_ident() != self._thread:
            return self._outside
        return self._outside + self._cpu_ns() - self._since

    def total_ns(self, recorded_ns: int) -> int:
        """All of it so far, with what recording has taken."""
        return self.outside_ns + self._charged + recorded_ns

    def section(self, recorded_ns: int, run_ns: int) -> dict[str, float]:
        """The ``overhead`` of ``run.json``; what is not known is absent.

        Args:
            recorded_ns: What recording has taken: ``own`` of the recorder's header.
            run_ns: How long the run has lasted.
        """
        own = self.total_ns(recorded_ns)
        found = {"seconds": own / 1e9, "outside": self.outside_ns / 1e9}
        return {**found, "share": min(1.0, own / run_ns)} if run_ns > 0 else found
