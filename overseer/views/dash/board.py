"""The contents of the dashboard: figures, their histories, monitors' samples, given values.

The figures are those of ``run.json``; nothing is counted here. Other threads only queue values; the
dashboard's thread takes them once a frame.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from ...model.catalogue import BYTES_IN, CONTEXT_KEYS, FIGURES, METRIC_GROUPS, PERCENT
from ...model.facts import ordered
from ...recorder.values import values
from ..text import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from ...model.steps import Step

    Event = Mapping[str, Any]

#: Keys with their own place, subscribed to. Memory is in ``cpudata`` too.
HEARD = ("rate", "progress", *(key for key in METRIC_GROUPS if key != "memdata"))
#: Keys that are not the script's figures.
_QUIET = (CONTEXT_KEYS - {"t", "n"}) | FIGURES | METRIC_GROUPS.keys()
#: Monitors' samples of traffic.
_TRAFFIC = {key: METRIC_GROUPS[key] for key in ("iodata", "netdata")}
#: Limits: tasks, keys, steps between two frames.
_TASKS, _KEYS, _STEPS = 32, 512, 8192
#: Interval at which figures are computed, in seconds: it takes milliseconds.
_LOOK = 1.0
#: Larger values do not fit an axis.
_ODD = 1e300


class RankRow(NamedTuple):
    """One rank of a job.

    Attributes:
        rank: Its number.
        rate: Its ``units`` a second; None if unknown, as the others.
        units: What the rate counts.
        loss: The last one.
        waiting: The share of its steps in which it waits for other ranks.
        state: What it is doing now, or how it ended; empty if unknown.
    """

    rank: int
    rate: float | None
    units: str
    loss: float | None
    waiting: float | None
    state: str


class History:
    """A figure over time: means over equal intervals, which double when there are too many.

    Args:
        capacity: Maximum count of intervals.
        length: The first intervals' length, in seconds.

    Attributes:
        start: The first moment, in seconds; None: empty.
        end: The time of the last value.
    """

    def __init__(self, capacity: int = 512, length: float = 0.01) -> None:
        self.start: float | None = None
        self.end = 0.0
        self._capacity, self._length = capacity, length
        self._sums: list[float] = []
        self._counts: list[int] = []
        self._lows: list[float] = []
        self._highs: list[float] = []

    def add(self, at: float, value: float) -> None:
        """Add a value."""
        self.include(at, value, 1, value, value)

    def include(self, at: float, total: float, n: int, low: float, high: float) -> None:
        """Add ``n`` values by their sum, the lowest and the highest, at one time."""
        if self.start is None:
            self.start = at
        place = int((at - self.start) / self._length) if at > self.start else 0
        while place >= self._capacity:
            self._sums = [math.fsum(pair) for pair in _pairs(self._sums)]
            self._counts = [sum(pair) for pair in _pairs(self._counts)]
            self._lows = [min(pair) for pair in _pairs(self._lows)]
            self._highs = [max(pair) for pair in _pairs(self._highs)]
            self._length, place = 2 * self._length, place // 2
        more = place + 1 - len(self._sums)
        if more > 0:
            self._sums += [0.0] * more
            self._counts += [0] * more
            self._lows += [math.inf] * more
            self._highs += [-math.inf] * more
        self._sums[place] += total
        self._counts[place] += n
        if -_ODD < low < self._lows[place]:
            self._lows[place] = low
        if _ODD > high > self._highs[place]:
            self._highs[place] = high
        if at > self.end:
            self.end = at

    @property
    def points(self) -> int:
        """Count of intervals."""
        return len(self._sums)

    def over(self, start: float, end: float, n: int) -> list[float | None]:
        """Means in ``n`` equal parts of a time, interpolated between known ones.

        NaN: a value was not finite. None: before the first or after the last.
        """
        sums, counts = [0.0] * n, [0] * n
        for place, column in self._columns(start, end, n):
            sums[column] += self._sums[place]
            counts[column] += self._counts[place]
        means = [s / c if c else None for s, c in zip(sums, counts, strict=True)]
        return _filled([m if m is None or abs(m) < _ODD else math.nan for m in means])

    def spread(self, start: float, end: float, n: int) -> list[tuple[float, float] | None]:
        """The lowest and highest finite value in ``n`` equal parts of a time; None: none."""
        spread: list[tuple[float, float] | None] = [None] * n
        for place, column in self._columns(start, end, n):
            low, high = spread[column] or (math.inf, -math.inf)
            low, high = min(low, self._lows[place]), max(high, self._highs[place])
            spread[column] = (low, high) if low <= high else None
        return spread

    def _columns(self, start: float, end: float, n: int) -> Iterator[tuple[int, int]]:
        """The intervals with values, each with its part, of ``n``, of a time."""
        step = (end - start) / n or 1.0
        for place, count in enumerate(self._counts):
            at = (self.start or 0.0) + (place + 0.5) * self._length
            if count and at + self._length >= start:
                yield place, min(n - 1, max(0, int((min(at, self.end) - start) / step)))


def _pairs(values: list[Any]) -> Iterable[list[Any]]:
    return (values[at : at + 2] for at in range(0, len(values), 2))


def _filled(values: list[float | None]) -> list[float | None]:
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    for (low, a), (high, b) in pairwise(known):
        for at in range(low + 1, high):
            values[at] = a + (b - a) * (at - low) / (high - low)
    return values


class TaskPanel:
    """A task: its figures, and the histories of its loss and rate.

    Attributes:
        facts: Its current part of ``run.json``.
        now: Items per second in the latest window, and their ``units``.
        done: Progress, ``of`` a total, in ``unit``; None if unknown.
        turn: The epoch and their count, for example; None: unknown.
        bar: Whether the progress is from a bar of the script, perhaps of one epoch only.
        beside: The same task of other runs, drawn over it, by their names.
    """

    def __init__(self, name: str) -> None:
        self.name = cut(name[:200], 40)
        self.facts: Event = {}
        self.loss, self.rate = History(), History(length=0.5)
        self.now: float | None = None
        self.units, self.unit = "items/s", ""
        self.done = self.of = 0.0
        self.began: float | None = None
        self.turn: tuple[float, float] | None = None
        self.bar = False
        self.beside: list[tuple[str, TaskPanel]] = []
        self._growth: deque[tuple[float, float]] = deque(maxlen=60)
        self._turns: list[tuple[float, float]] = []

    def turned(self, at: float, turn: tuple[float, float] | None) -> None:
        """Set the turn that the progress belongs to, if known."""
        self.turn = turn
        if turn is None or turn[1] < 1 or not self.of:
            return
        share = min(1.0, (turn[0] - 1 + self.done / self.of) / turn[1])
        if self._turns and share < self._turns[-1][1]:
            self._turns.clear()
        self._turns = [*self._turns[:1], (at, share)]

    def progressed(self, at: float, done: float, total: float, unit: str) -> None:
        """Set the progress."""
        growth = self._growth
        if growth and done < growth[-1][1]:
            growth.clear()  # A new epoch.
        if not growth and done == 1 and self.began is not None:
            growth.append((self.began, 0.0))
        if not growth or done > growth[-1][1]:
            growth.append((at, done))
        self.done, self.of, self.unit = done, total, unit

    def left(self, now: float) -> float | None:
        """Seconds left: at the recent pace, or over several turns at the overall pace."""
        if self.turn is not None:
            if len(self._turns) < 2 or self._turns[1][1] in (1.0, self._turns[0][1]):
                return None
            (start, low), (end, high) = self._turns
            return max(0.0, (1 - high) * (end - start) / (high - low) - (now - end))
        if len(self._growth) < 2 or self.done >= self.of:
            return None
        (start, low), (end, high) = self._growth[0], self._growth[-1]
        return max(0.0, (self.of - high) * (end - start) / (high - low) - (now - end))


class Meter:
    """A device's load, 0 to 1, and memory in bytes, with recent histories.

    Attributes:
        cores: The load of each processor, if it is sampled.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.load: float | None = None
        self.used = self.total = 0.0
        self.notes: list[str] = []
        self.cores: list[float] = []
        self.loads: deque[float] = deque(maxlen=240)
        self.uses: deque[float] = deque(maxlen=240)

    def read(self, data: object, key: str) -> None:
        """Add a monitor's sample.

        Args:
            data: The sample.
            key: Its key in the event.
        """
        if not isinstance(data, dict):
            return
        metrics = METRIC_GROUPS[key].metrics
        full = 100.0 if metrics["load"].kind == PERCENT else 1.0
        unit = BYTES_IN[metrics["memory"].unit]
        load, pair = as_number(data.get("load")), _pair(data.get("memory"))
        self.load = None if load is None else load / full
        if self.load is not None:
            self.loads.append(self.load)
        if pair is not None and pair[1] > 0:
            self.used, self.total = pair[0] * unit, pair[1] * unit
            self.uses.append(pair[0] / pair[1])
        cores = data.get("cores")
        known = map(as_number, cores if isinstance(cores, list) else ())
        self.cores = [core / full for core in known if core is not None]
        noted = [metrics[name] for name in ("power", "temperature") if name in metrics]
        values = [(as_number(data.get(each.key)), each.unit) for each in noted]
        self.notes = [f"{value:.0f} {unit}" for value, unit in values if value is not None]


class Board:
    """The contents of the dashboard.

    Args:
        title: The script.
        start: The run's start, in seconds of the monotonic clock.
        given: Returns the latest loss that the script gives for a task; None: use its steps'.
        clock: The monotonic clock, in seconds.

    Attributes:
        tasks: By name, in display order.
        meters: ``cpu``, ``process``, then the GPUs.
        flows: Bytes per second of ``disk`` and ``net``, by direction.
        ranks: The ranks of its job, in display order.
        rank: The one whose figures these are.
        by_steps: Curves of rates are those of recorded steps, instead of windows.
    """

    def __init__(
        self,
        title: str,
        start: float = 0.0,
        given: Callable[[str], float | None] = lambda task: None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.title, self.start, self.now = title, start, start
        self.tasks: dict[str, TaskPanel] = {}
        self.meters: dict[str, Meter] = {}
        self.flows: dict[str, dict[str, float]] = {}
        self.ranks: list[RankRow] = []
        self.rank, self.by_steps = 0, False
        self._clock, self._told, self._looked = clock, given, -math.inf
        self._steps: deque[Step] = deque(maxlen=_STEPS)
        self._lost: deque[tuple[str, float, float]] = deque(maxlen=_STEPS)
        self._heard: deque[tuple[float, Event]] = deque(maxlen=_STEPS)
        self._given: dict[tuple[str, str], object] = {}
        self._fresh: set[tuple[str, str]] = set()
        self._counters: dict[str, tuple[float, Event]] = {}

    # From any thread

    def take(self, steps: list[Step]) -> None:
        """Queue finished steps, some ten times a second, and the latest given loss."""
        self._steps.extend(steps)
        for name in {step.task for step in steps}:
            loss = self._told(name)
            if loss is not None:
                self._lost.append((name, self._clock(), loss))

    def hear(self, event: Event, at: float | None = None) -> None:
        """Queue an event whose key has its own place, of now or of another time."""
        self._heard.append((self._clock() if at is None else at, event))

    def keep(self, event: Event) -> None:
        """Queue the numbers of an event; costly values once a frame."""
        if "$event" in event:
            return
        task, given = str(event.get("task") or ""), self._given
        for key, value in event.items():
            place = task, key
            if key in _QUIET or (place not in given and len(given) >= _KEYS):
                continue
            if type(value) is float or type(value) is int:
                given[place] = value
            elif place not in self._fresh and (held := _held(value)) is not None:
                given[place] = held
                self._fresh.add(place)

    # Once a frame

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show yet."""
        return not (self.tasks or self.meters or self.flows or self._given)

    @property
    def scalars(self) -> list[tuple[str, float | None]]:
        """Other given numbers: name and last value; None: pending."""
        plain = ("", "train", "main")
        return [
            (key if task in plain else f"{task}/{key}", as_number(value))
            for (task, key), value in dict(self._given).items()
            if not key.startswith("$")
        ]

    def read(self, now: float, facts: Callable[[], Event], last: bool = False) -> None:
        """Take the queued values.

        Args:
            now: The time in seconds.
            facts: Computes the ``tasks`` of ``run.json``; once a second at most.
            last: The run has ended.
        """
        self.now = now
        for _ in range(len(self._heard)):
            at, event = self._heard.popleft()
            self._figure(at, event)
        self._losses()
        if last or now - self._looked >= _LOOK:
            self._looked = now
            for name, known in facts().items():
                task = self.task(name)
                if task is not None:
                    task.facts = known
        self._fresh.clear()

    def task(self, name: object) -> TaskPanel | None:
        """The task of this name; None if there are too many."""
        name = str(name or "train")
        if name not in self.tasks and len(self.tasks) < _TASKS:
            self.tasks = ordered({**self.tasks, name: TaskPanel(name)})
        return self.tasks.get(name)

    def _losses(self) -> None:
        """Losses of steps in order, up to the first still pending."""
        for _ in range(len(self._lost)):
            name, at, loss = self._lost.popleft()
            if (task := self.task(name)) is not None:
                task.loss.add(at, loss)
        steps, told = self._steps, dict[str, bool]()
        while steps:
            late = steps[0].late
            if late and not all(number.arrived for number in late):
                break
            step = steps.popleft()
            name = step.task
            task = self.tasks.get(name) or self.task(name)
            if task is None:
                continue
            if task.began is None:
                task.began = step.start / 1e9
            if name not in told:
                told[name] = self._told(name) is not None
            loss = step.loss
            if step.backwards and loss == loss and not told[name]:
                if late:
                    loss += sum(number.value for number in late)
                task.loss.add(step.end / 1e9, loss)

    def _figure(self, at: float, event: Event) -> None:
        rate, progress = as_number(event.get("rate")), _pair(event.get("progress"))
        if rate is not None and (task := self.task(event.get("task"))) is not None:
            task.now, task.units = rate, cut(str(event.get("units", "per second"))[:200], 20)
            if not self.by_steps:
                task.rate.add(at, rate)
        if progress and progress[1] > 0 and (task := self.task(event.get("task"))) is not None:
            unit = "" if "rate" in event else cut(str(event.get("units", ""))[:200], 12)
            task.progressed(at, *progress, unit)
            task.bar = "turn" in event
            task.turned(at, _pair(event.get("turn")))
        for label, key in (("cpu", "cpudata"), ("process", "process")):
            if key in event:
                self._meter(label).read(event[key], key)
        devices = event.get("gpudata")
        if isinstance(devices, dict):
            # By number: as text, 10 precedes 2.
            for index in sorted(devices, key=lambda each: (len(str(each)), str(each))):
                self._meter(f"gpu {cut(index, 8)}").read(devices[index], "gpudata")
        for key in _TRAFFIC.keys() & event.keys():
            self._flow(key, at, event[key])

    def _meter(self, label: str) -> Meter:
        return self.meters.setdefault(label, Meter(label))

    def _flow(self, key: str, at: float, counters: object) -> None:
        """The rate between the last two samples of a counter."""
        source = _TRAFFIC[key]
        now = {each.name: _total(counters, each.key) for each in source.totals}
        then, before = self._counters.get(key, (at, now))
        if at > then:
            self.flows[source.short] = {
                way: max(0.0, now[way] - before[way]) / (at - then) for way in now
            }
        self._counters[key] = at, now


def _total(counters: object, name: str) -> float:
    """A counter, summed over disks or interfaces."""
    if not isinstance(counters, dict):
        return 0.0
    own = as_number(counters.get(name))
    return own if own is not None else sum(_total(each, name) for each in counters.values())


def _pair(value: object) -> tuple[float, float] | None:
    """Two finite numbers, such as progress or memory."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    first, second = map(as_number, value)
    known = first is not None and second is not None and math.isfinite(first + second)
    return (first, second) if known else None  # type: ignore[return-value]


def as_number(value: object) -> float | None:
    """A kept value as a number; None if it is not one, or still pending."""
    if type(value) is float:
        return value
    if type(value) is int:
        return value if abs(value) < 1e300 else math.inf
    return value.number if isinstance(value, _Pending) else None


class _Pending:
    """A number that is being copied from a device."""

    number: float | None = None

    def arrived(self, number: float) -> None:
        """Take the number."""
        self.number = number


def _held(value: Any) -> object:
    """Keep a value other than a plain number, without its graph or device memory.

    Subclasses of tensors are never read: that may be a collective.
    """
    kind = type(value)
    try:
        if kind.__module__ == "torch" and kind.__name__ == "Tensor":
            if value.numel() != 1:
                return None
            if value.device.type != "cpu":
                pending = _Pending()
                return pending if values.later(value, pending.arrived) else None
            value = value.item()
        elif kind.__module__ == "numpy" and not value.shape:
            value = value.item()
    except Exception:  # A tensor without a value, or a failed device.
        return None
    return value if type(value) is float or type(value) is int else None
