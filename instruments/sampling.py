"""Samples the machine, the script's processes and GPUs on timers while the script runs.

Here is what monitors share: one timer for all of a run, intervals, and what happens when they fail;
and the instrument that runs them unless told not to.
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

#: When the first sample is taken: a script that ends before never imports psutil.
FIRST_SECONDS = 0.25
#: How often memory is looked at between two samples.
GLANCE_SECONDS = 0.25
#: Intervals outside these are mistakes: a busy loop, or a sample that never comes.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.01, 86_400.0
#: Failures in a row before a monitor, or a device, is no longer sampled.
LOST = 3
#: A sample that takes longer than 1/REST of a second, as one of a hundred processes does, is taken
#: no more often than costs a processor 1/REST of its time: half a percent with weighing memory.
REST = 300
#: What psutil raises where the machine does not count something, as a sandbox may not.
NOT_OFFERED = (OSError, NotImplementedError)
WHO = "instrument_monitors"
REMEDY = "The figures are missing, or end where that began."

_all: WeakKeyDictionary[Overseer, dict[str, Sampling]] = WeakKeyDictionary()


def sampling_of(ov: Overseer, thread: str) -> Sampling:
    """The one :class:`Sampling` of a run on the timer ``thread``: ``host`` or ``gpu``."""
    return _all.setdefault(ov, {}).setdefault(thread, Sampling())


def claim(ov: Overseer, *keys: str) -> None:
    """Have the monitors of these keys that run by default make way: something else gives them."""
    for thread in ("host", "gpu"):
        sampling_of(ov, thread).claimed.update(keys)


def checked_interval(value: object, who: str) -> float:
    """``value`` as a number of seconds.

    Args:
        value: What the user wrote; text is parsed.
        who: The option or field, as the user knows it.

    Raises:
        UsageError: It is no number, or too short or too long for an interval.
    """
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = 0.0
    if SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:  # False for NaN too.
        return seconds
    raise UsageError(
        "bad-interval",
        f"{who} is {value!r}, which is no interval to sample at",
        f"Give seconds from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} (a day), for example 1.",
    )


class Monitor:
    """Sample something every ``seconds`` while the script runs; a run has a copy, which reads.

    Equal ones are the same instrument. Not a dataclass: importing those costs voir's start 10 ms.

    Args:
        seconds: The interval.
        by_default: Nobody asked for this one.

    Attributes:
        key: The key of its events.
        emits: The units of what they carry.
        tells: What it samples, in a word.
        silent: Nothing is said where the machine does not offer this, unless it was asked for.
        thread: The timer that it is on.
        glances: Whether it looks at something more often than it reads.
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
        return isinstance(other, Monitor) and other._identity() == self._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __call__(self, ov: Overseer) -> None:
        """Sample in this run, in the place of the monitor of this key that runs by default."""
        claim(ov, self.key)
        sampling_of(ov, self.thread).add(ov, self)

    # What a kind of monitor does in a run, on the timer's thread

    def begin(self, ov: Overseer) -> None:
        """Prepare to read in this run."""

    def read(self, now_ns: int) -> object | None:
        """What the event carries; None for no event."""
        raise NotImplementedError

    def glance(self, now_ns: int) -> None:
        """Look at what is looked at more often than all is read, at each tick of the timer."""

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Put what is known into the run's summary; no time: a reading has not come back."""

    # At work

    def look(self, now_ns: int) -> None:
        """Glance, once there was a reading."""
        if self._answered:
            with aside_psutil, suppress(Exception):  # The next sample shows whether it is lost.
                self.glance(now_ns)

    def tick(self, ov: Overseer, now_ns: int) -> None:
        """Read, if it is time and three samples in a row have not failed."""
        if now_ns < self._due_ns or self._failures == LOST:
            return
        self._due_ns = now_ns + int(self.seconds * 0.9e9)  # Timers are not exact.
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
        """What was the end of it, if that is worth a word."""
        if self._failures < (LOST if self._answered else 1):
            return None
        quiet = self.silent and self.by_default
        return None if quiet and isinstance(self._error, NOT_OFFERED) else self._error


class Sampling:
    """The monitors of a run that share a timer.

    Attributes:
        claimed: Keys whose default monitors make way.
        seconds: The interval of the timer.
    """

    __name__ = WHO

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.seconds = LONGEST_SECONDS
        self._waiting: list[Monitor] = []
        self._default: Callable[[], Iterable[Monitor]] | None = None
        self._members: list[Monitor] = []
        self._reading = False
        self._free_ns = 0

    def add(self, ov: Overseer, monitor: Monitor) -> None:
        """Read ``monitor`` too, from the next tick on."""
        self._waiting.append(monitor)
        tick = min(monitor.seconds, GLANCE_SECONDS) if monitor.glances else monitor.seconds
        self.seconds = min(self.seconds, tick)
        ov.require(self)

    def by_default(
        self, ov: Overseer, seconds: float, make: Callable[[], Iterable[Monitor]]
    ) -> None:
        """Read what ``make`` returns but for what is claimed; it is called at the first tick."""
        self.seconds, self._default = min(self.seconds, seconds), make
        ov.require(self)

    def __call__(self, ov: Overseer) -> Generator[Any, Any, None]:
        """Sample from the end of ``load_script`` to the end of ``run_script``; then sum up."""
        yield ov.phases.load_script(priority=-200)  # All have said what they want.
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
        """Read what is due; on the timer's thread."""
        self._reading = True
        try:
            now, first = ov.clock.now_ns(), not self._members
            if first:
                with aside_psutil, suppress(ImportError, OSError):
                    import psutil  # noqa: F401
                unlist()  # It asks which thread this is; the script is not to see one until then.
            self._begin(ov)
            for member in self._members:
                member.look(now)
            if now >= self._free_ns:
                used = ov.clock.cpu_ns()
                for member in self._members:
                    member.tick(ov, now)
                took = ov.clock.cpu_ns() - used
                # The first one imports what it needs.
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
        """Name what was lost: each reason once, with all that it was the reason of."""
        reasons: dict[str, list[str]] = {}
        errors = {member.tells: member.lost for member in self._members}
        for tells, error in errors.items():
            if error is not None:
                reasons.setdefault(said(error), []).append(tells)
        if reasons:
            each = (f"{', '.join(m)} could not be sampled: {why}" for why, m in reasons.items())
            place = next(where(error) for error in errors.values() if error is not None)
            ov.report(Problem("not-sampled", WHO, "; ".join(each), place, REMEDY))


class Running:
    """Mean, least and greatest of numbers that come one at a time; its size never grows."""

    def __init__(self) -> None:
        self.n, self.total = 0, 0.0
        self.least, self.greatest = float("inf"), float("-inf")

    def add(self, value: float | None) -> None:
        """Take one more number into account; None is no number."""
        if value is not None:
            self.n, self.total = self.n + 1, self.total + value
            self.least, self.greatest = min(self.least, value), max(self.greatest, value)

    def mean_max(self) -> dict[str, float]:
        """``mean`` and ``max``; empty if there was no number."""
        return {"mean": round(self.total / self.n, 3), "max": self.greatest} if self.n else {}


# Those that run by default
