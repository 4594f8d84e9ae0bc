"""What the monitors share: their own timer, an early first sample, summaries of fixed size."""

from __future__ import annotations

import errno
import math
from _thread import allocate_lock
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from overseer.boundary import said, where
from overseer.errors import Problem, UsageError

if TYPE_CHECKING:
    from overseer.overseer import Overseer

#: When the first sample is taken: early in a run of three seconds, and after the end of an empty
#: script, which then never pays for importing psutil.
FIRST_SECONDS = 0.25

#: Intervals outside these are mistakes: a busy loop, or a sample that never comes.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.01, 86_400.0

#: What a machine raises that does not offer a figure (a sandbox without /proc/diskstats).
NOT_OFFERED = (NotImplementedError, OSError)

_importing = allocate_lock()
_claimed: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_unread: WeakKeyDictionary[Any, Unread] = WeakKeyDictionary()
#: Whose it is that monitors run without being asked for.
STOCK = "instrument_monitors"


class NoPsutil(ImportError):
    """psutil is there, or should be, and cannot be imported."""


class Unread:
    """What the machine or psutil did not tell in a run; each is said once, for all monitors."""

    def __init__(self) -> None:
        self._without_psutil = False
        self._lock = allocate_lock()
        self._reasons: dict[str, tuple[BaseException, list[str]]] = {}

    def no_psutil(self, ov: Overseer, error: NoPsutil, who: str) -> None:
        """A monitor cannot do without it; none of the others can."""
        with self._lock:
            told, self._without_psutil = self._without_psutil, True
        if not told:
            place = where(error.__cause__ or error)
            remedy = (
                "Processors, memory, disks, network and processes are not sampled: reinstall it."
            )
            ov.report(Problem("not-sampled", who, str(error), place, remedy))

    def add(self, what: str, error: BaseException) -> None:
        """Something was not told that the summary would tell."""
        with self._lock:
            self._reasons.setdefault(said(error), (error, []))[1].append(what)

    def say(self, ov: Overseer) -> None:
        """The script has ended: say what was added."""
        with self._lock:
            reasons, self._reasons = self._reasons, {}
        if reasons:
            texts = [
                f"{_listed(missing)} could not be sampled: {reason}"
                for reason, (_, missing) in reasons.items()
            ]
            first = next(iter(reasons.values()))[0]
            remedy = "The figures are missing, or end where that began."
            ov.report(Problem("not-sampled", STOCK, "; ".join(texts), where(first), remedy))


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def unread_of(ov: Overseer) -> Unread:
    """What was not told in this run."""
    return _unread.setdefault(ov, Unread())


def claim(ov: Overseer, *keys: str) -> None:
    """Have the monitors of these keys that run by default make way: something else gives them."""
    _claimed.setdefault(ov, set()).update(keys)


def checked_interval(value: object, who: str) -> float:
    """``value`` as a number of seconds.

    Args:
        value: What the user wrote; text is parsed.
        who: The option or field, as the user knows it.

    Raises:
        UsageError: It is no number, not positive, not finite or absurdly long or short.
    """
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    if SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:  # False for NaN too.
        return seconds
    raise UsageError(
        "bad-interval",
        f"{who} is {value!r}, which is no interval to sample at",
        f"Give seconds from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} (a day), for example 1.",
    )


class Running:
    """Mean, least and greatest of numbers that come one at a time; its size never grows."""

    def __init__(self) -> None:
        self.n = 0
        self.total = 0.0
        self.least = math.inf
        self.greatest = -math.inf

    def add(self, value: float | None) -> None:
        """Take one more number into account; ``None`` is no number."""
        if value is None:
            return
        self.n += 1
        self.total += value
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)

    @property
    def mean(self) -> float:
        """The mean of the numbers so far; there must have been one."""
        return self.total / self.n

    def mean_max(self) -> dict[str, float]:
        """``mean`` and ``max``, or nothing when there was no number."""
        return {"mean": round(self.mean, 3), "max": self.greatest} if self.n else {}


class Sampler(Protocol):
    """What a monitor reads: baselines at the start, a reading at each tick, a summary at the end.

    ``read`` runs on the monitor's own timer thread, ``start`` and ``summarise`` on the script's.
    """

    def start(self) -> None:
        """Take the baselines that need no import; the script is about to run."""

    def read(self) -> object | None:
        """What the event carries under the monitor's key; ``None`` gives no event."""

    def summarise(self, summary: dict[str, Any]) -> None:
        """Put what is known by now into the run's summary; nothing when nothing is."""


def import_psutil() -> Any:
    """The module ``psutil``, imported by one thread at a time.

    While one fails to import it, others would get the half of it that there is by then.

    Raises:
        NoPsutil: Its import raises something.
        OSError: The script has used up what can be opened; it may be otherwise later on.
    """
    with _importing:
        try:
            import psutil
        except Exception as error:  # Whatever stands in its place may raise anything.
            if _is_passing(error):
                raise
            raise NoPsutil(f"psutil cannot be imported: {said(error)}") from error
    return psutil


def _is_passing(error: BaseException) -> bool:
    """Whether there is but nothing left to open it with, which is the script's own doing."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class _Delivery:
    """One tick of a monitor's timer: read, then give at once.

    Args:
        ov: The run.
        monitor: Whose timer it is.
        read: Reads what the event carries.
    """

    def __init__(self, ov: Overseer, monitor: Monitor, read: Callable[[], object | None]) -> None:
        self._ov = ov
        self._monitor = monitor
        self._key = monitor.key
        self._read = read
        self._off = False

    def __call__(self) -> None:
        if self._off:
            return
        data = self._reading()
        if data is not None:
            time = self._ov.clock.wall_ns() / 1e9
            self._ov.publish(**{"task": "main", "time": time, self._key: data})

    def _reading(self) -> object | None:
        try:
            return self._read()
        except (NoPsutil, *NOT_OFFERED) as error:
            if self._monitor.by_default and _is_passing(error):
                return None
            self._off = self._monitor.forgoes(self._ov, error)
            if not self._off:
                raise
            return None


class Monitor:
    """Sample something every ``seconds`` on a timer of its own, from the script's first line on.

    Equal ones are the same instrument. Not a dataclass: importing those costs voir's start 10 ms.

    Args:
        seconds: The interval.
        by_default: Nobody asked for this one: be off where the machine cannot tell, and make way
            when a voirfile requires a monitor of the same kind.

    Attributes:
        key: The key of its events.
        emits: The units of what they carry.
        tells: What the summary lacks without it, which is then said; empty: nothing.
    """

    key: ClassVar[str]
    emits: ClassVar[dict[str, str]]
    tells: ClassVar[str] = ""

    def __init__(self, seconds: float = 1.0, by_default: bool = False) -> None:
        self.seconds = checked_interval(seconds, f"{type(self).__name__}(seconds)")
        self.by_default = by_default

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.seconds, self.by_default))

    @property
    def tick(self) -> float:
        """How often to read, in seconds; a sampler that wants to be asked more often says more."""
        return self.seconds

    def sampler(self, ov: Overseer) -> Sampler:
        """A fresh sampler for one run."""
        raise NotImplementedError

    def forgoes(self, ov: Overseer, error: BaseException) -> bool:
        """Whether it is off from now on, and what it could not read is said elsewhere."""
        if isinstance(error, NoPsutil):
            unread_of(ov).no_psutil(ov, error, STOCK if self.by_default else type(self).__name__)
        elif self.by_default and self.tells:
            unread_of(ov).add(self.tells, error)
        return self.by_default or isinstance(error, NoPsutil)

    def __call__(self, ov: Overseer) -> Generator[Any, Any, None]:
        """Sample from the end of ``load_script`` to the end of ``run_script``; then sum up."""
        claimed = _claimed.setdefault(ov, set())
        if not self.by_default:
            claimed.add(self.key)
        yield ov.phases.load_script(priority=-100 if self.by_default else 0)
        if self.by_default and self.key in claimed:
            return
        claimed.add(self.key)
        sampler = self.sampler(ov)
        try:
            sampler.start()
        except NOT_OFFERED as error:
            if not self.forgoes(ov, error):
                raise
            return
        deliver = _Delivery(ov, self, sampler.read)
        try:
            with ov.every(self.tick, deliver, first=FIRST_SECONDS):
                yield ov.phases.run_script
        finally:
            sampler.summarise(ov.summary)
