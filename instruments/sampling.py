"""Samples the machine, the script's processes and GPUs on timers while the script runs.

Monitors of a run share a timer, the check of intervals and the handling of failures.
"""

from __future__ import annotations

from contextlib import suppress
from weakref import WeakKeyDictionary

from overseer.apart import aside_psutil
from overseer.boundary import said, where
from overseer.errors import Problem, UsageError
from overseer.timers import unlist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any, ClassVar

    from overseer import Overseer

#: Delay of the first sample: a script that ends earlier never imports psutil.
FIRST_SECONDS = 0.25
#: Interval between looks at memory.
GLANCE_SECONDS = 0.25
#: Intervals outside these are mistakes: a busy loop, or a sample that never comes.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.01, 86_400.0
#: Failures in a row before a monitor or a device is disabled.
LOST = 3
#: Sampling uses at most 1/REST of a processor (half a percent with proportional memory): slow
#: samples, as of a hundred processes, are taken less often.
REST = 300
#: psutil's exceptions for counters that the machine lacks, as in a sandbox.
NOT_OFFERED = (OSError, NotImplementedError)
WHO = "instrument_monitors"
NO_FIGURES = "The figures are missing, or end at the first failure."

_all: WeakKeyDictionary[Overseer, dict[str, Sampling]] = WeakKeyDictionary()


def sampling_of(ov: Overseer, thread: str) -> Sampling:
    """The one :class:`Sampling` of a run on the timer ``thread``: ``host`` or ``gpu``."""
    return _all.setdefault(ov, {}).setdefault(thread, Sampling())


def claim(ov: Overseer, *keys: str) -> None:
    """Disable the default monitors of these keys: another source gives them."""
    for thread in ("host", "gpu"):
        sampling_of(ov, thread).claimed.update(keys)


def checked_interval(value: object, who: str) -> float:
    """Convert a value into an interval in seconds.

    Args:
        value: A number, or text.
        who: The option or field, for the message.

    Raises:
        UsageError: The value is not a number, or out of range (``bad-interval``).
    """
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = 0.0
    if SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:  # False for NaN too.
        return seconds
    raise UsageError(
        "bad-interval",
        f"{who} is {value!r}, which is not a sampling interval",
        f"Give seconds from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} (a day), for example 1.",
    )


class MachineMonitor:
    """Samples something every ``seconds`` while the script runs; each run uses a copy.

    Equal monitors are the same instrument. (Not a dataclass: importing that module takes 10 ms.)

    Args:
        seconds: The interval.
        by_default: The monitor runs without having been asked for.

    Attributes:
        key: The key of its events.
        emits: The units of their fields.
        tells: The name of what it samples, for messages.
        silent: By default, do not report that the machine lacks this.
        thread: The timer that it runs on.
        glances: Whether :meth:`glance` does something.
    """

    key: ClassVar[str]
    emits: ClassVar[dict[str, str]]
    tells: ClassVar[str]
    silent: ClassVar[bool] = False
    thread: ClassVar[str] = "host"
    glances: ClassVar[bool] = False

    def __init__(self, seconds: float = 1.0, by_default: bool = False) -> None:
        self.seconds = checked_interval(seconds, f"{type(self).__name__}(seconds)")
        self.by_default = by_default
        self._due_ns = self._failures = 0
        self._answered = False
        self._error: Exception | None = None

    def _identity(self) -> tuple[object, ...]:
        return type(self), self.seconds, self.by_default

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineMonitor) and other._identity() == self._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __call__(self, ov: Overseer) -> None:
        """Sample in this run; the default monitor of this key is disabled."""
        claim(ov, self.key)
        sampling_of(ov, self.thread).add(ov, self)

    # Implemented by each kind; called on the timer's thread

    def begin(self, ov: Overseer) -> None:
        """Prepare for this run."""

    def read(self, now_ns: int) -> object | None:
        """Take a sample; None for no event."""
        raise NotImplementedError

    def glance(self, now_ns: int) -> None:
        """Take a cheap partial sample at each tick of the timer."""

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Add the figures to the run's summary.

        Args:
            summary: The summary.
            now_ns: The time; None if a sample is still under way.
        """

    # Called by Sampling

    def look(self, now_ns: int) -> None:
        """Glance, if a sample has succeeded before."""
        if self._answered:
            with aside_psutil, suppress(Exception):  # The next sample counts failures.
                self.glance(now_ns)

    def tick(self, ov: Overseer, now_ns: int) -> None:
        """Take a sample if it is due; not after three failures in a row."""
        if now_ns < self._due_ns or self._failures == LOST:
            return
        self._due_ns = now_ns + int(self.seconds * 0.9e9)  # Timers may be early.
        try:
            with aside_psutil:
                data = self.read(now_ns)
        except Exception as error:
            self._failures, self._error = self._failures + 1, error
            return
        self._failures, self._answered = 0, True
        if data is not None:
            time = ov.clock.wall_ns() / 1e9
            ov.publish(**{"task": "main", "time": time, self.key: data})

    @property
    def lost(self) -> BaseException | None:
        """The error that disabled the monitor, if it is to be reported."""
        if self._failures < (LOST if self._answered else 1):
            return None
        quiet = self.silent and self.by_default
        return None if quiet and isinstance(self._error, NOT_OFFERED) else self._error


class Sampling:
    """The monitors of a run that share a timer.

    Attributes:
        claimed: Keys whose default monitors are disabled.
        seconds: The interval of the timer.
    """

    __name__ = WHO

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.seconds = LONGEST_SECONDS
        self._waiting: list[MachineMonitor] = []
        self._default: Callable[[], Iterable[MachineMonitor]] | None = None
        self._members: list[MachineMonitor] = []
        self._reading = False
        self._free_ns = 0

    def add(self, ov: Overseer, monitor: MachineMonitor) -> None:
        """Sample ``monitor`` too, from the next tick on."""
        self._waiting.append(monitor)
        tick = min(monitor.seconds, GLANCE_SECONDS) if monitor.glances else monitor.seconds
        self.seconds = min(self.seconds, tick)
        ov.require(self)

    def by_default(
        self, ov: Overseer, seconds: float, make: Callable[[], Iterable[MachineMonitor]]
    ) -> None:
        """Sample the monitors that ``make`` returns at the first tick, unless they are claimed."""
        self.seconds, self._default = min(self.seconds, seconds), make
        ov.require(self)

    def __call__(self, ov: Overseer) -> Generator[Any, Any, None]:
        """Sample from the end of ``load_script`` to the end of ``run_script``, then summarise."""
        yield ov.phases.load_script(priority=-200)  # All monitors are known by then.
        try:
            with ov.every(self.seconds, lambda: self.tick(ov), first=FIRST_SECONDS):
                yield ov.phases.run_script
        finally:
            now = None if self._reading else ov.clock.now_ns()
            for member in self._members:
                with aside_psutil:
                    member.summarise(ov.summary, now)
            self._report(ov)

    def tick(self, ov: Overseer) -> None:
        """Take the samples that are due; on the timer's thread."""
        self._reading = True
        try:
            now, first = ov.clock.now_ns(), not self._members
            if first:
                with aside_psutil, suppress(ImportError, OSError):
                    import psutil  # noqa: F401
                unlist()  # psutil's import has listed this thread in threading, which shows.
            self._begin(ov)
            for member in self._members:
                member.look(now)
            if now >= self._free_ns:
                used = ov.clock.cpu_ns()
                for member in self._members:
                    member.tick(ov, now)
                took = ov.clock.cpu_ns() - used
                # The first sample includes imports.
                self._free_ns = now + REST * took if REST * took > 1e9 and not first else 0
        finally:
            self._reading = False

    def _begin(self, ov: Overseer) -> None:
        make, self._default = self._default, None
        default = [m for m in make() if m.key not in self.claimed] if make is not None else []
        wanted, self._waiting = [*default, *self._waiting], []
        for monitor in wanted:
            self._members.append(type(monitor)(monitor.seconds, monitor.by_default))
            self._members[-1].begin(ov)

    def _report(self, ov: Overseer) -> None:
        """Report the disabled monitors, grouped by their errors."""
        reasons: dict[str, list[str]] = {}
        errors = {member.tells: member.lost for member in self._members}
        for tells, error in errors.items():
            if error is not None:
                reasons.setdefault(said(error), []).append(tells)
        if reasons:
            each = (f"{', '.join(m)} could not be sampled: {why}" for why, m in reasons.items())
            place = next(where(error) for error in errors.values() if error is not None)
            ov.report(Problem("not-sampled", WHO, "; ".join(each), place, NO_FIGURES))


class Running:
    """Mean, minimum and maximum of a stream of numbers, in constant memory."""

    def __init__(self) -> None:
        self.n, self.total = 0, 0.0
        self.least, self.greatest = float("inf"), float("-inf")

    def add(self, value: float | None) -> None:
        """Add a number; None is ignored."""
        if value is not None:
            self.n, self.total = self.n + 1, self.total + value
            self.least, self.greatest = min(self.least, value), max(self.greatest, value)

    def mean_max(self) -> dict[str, float]:
        """``mean`` and ``max``; empty without numbers."""
        return {"mean": round(self.total / self.n, 3), "max": self.greatest} if self.n else {}


# Those that run by default
