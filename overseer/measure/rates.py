"""Rates while the run goes on: items over seconds of the same steps, window by window.

The seconds of a window are its steps' own; pauses are told apart. The last, incomplete window
counts, and so does one that holds a single step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .columns import Columns, Steps, Sums
from .spans import NOTHING, ONE_STEP, Span

#: Tasks and threads a window tells apart; a run with more has its later ones in no window.
_TASKS = 256
_THREADS = 256


@dataclass(frozen=True)
class Reading:
    """What one window of one task says.

    Attributes:
        task: The task.
        units: What the items are.
        first: Number of its first step.
        steps: How many steps have ended in it.
        items: Items of the steps whose items and time are known; None without any. Of a task
            none of whose batches has a size it is the steps, and ``units`` is ``"steps"``.
        seconds: The time of those same steps, without pauses.
        rate: ``items / seconds``; over threads that work at the same time, summed.
        loading_seconds: Time waiting for batches; None when not seen.
        compute_seconds: Time on batches; None when not seen.
        pause_seconds: Pauses in the window, in none of the above.
        end_ns: When its last step ended.
    """

    task: str
    units: str
    first: int
    steps: int
    items: int | None
    seconds: float
    rate: float | None
    loading_seconds: float | None
    compute_seconds: float | None
    pause_seconds: float
    end_ns: int

    @property
    def loading_rate(self) -> float | None:
        """Items per second of waiting: how fast the loader alone would feed the task."""
        return _per_second(self.items, self.loading_seconds)

    @property
    def compute_rate(self) -> float | None:
        """Items per second of work: how fast the task would be with a loader that never waits."""
        return _per_second(self.items, self.compute_seconds)

    @property
    def loading_share(self) -> float | None:
        """Loading as a part of loading and compute."""
        return share(self.loading_seconds, self.compute_seconds)

    @property
    def compute_share(self) -> float | None:
        """Compute as a part of loading and compute."""
        return share(self.compute_seconds, self.loading_seconds)


def share(part: float | None, rest: float | None) -> float | None:
    """``part`` of ``part + rest``; None when either is not known, or both are nothing."""
    if part is None or rest is None or part + rest <= 0:
        return None
    return part / (part + rest)


def _per_second(items: int | None, seconds: float | None) -> float | None:
    return items / seconds if items is not None and seconds else None


def concurrency(spans: Iterable[tuple[int, int]]) -> float:
    """How many of the spans run at once on average: 1 for one after the other, 2 for two abreast.

    Args:
        spans: Begin and end of each.
    """
    total = union = 0
    reach: int | None = None
    for begin, end in sorted(spans):
        total += end - begin
        union += max(0, end - (begin if reach is None else max(begin, reach)))
        reach = end if reach is None else max(reach, end)
    return total / union if union else 1.0


class _Window:
    """The steps of one task since a window was opened."""

    def __init__(self, opened_ns: int, first: int) -> None:
        self.opened_ns = opened_ns
        self.first = first
        self.sums = Sums()
        self._spans: dict[int, tuple[int, int]] = {}
        self._last: tuple[str, str, int] = ("", "", 0)

    def add(self, part: Columns) -> None:
        """Take in steps."""
        self.sums = self.sums.plus(part.sums)
        self._last = (part.task[-1], part.units[-1], part.end_ns[-1])
        only = part.thread[0]
        if part.thread.count(only) == part.rows and self._spans.keys() <= {only}:
            begin, _ = self._spans.get(only, (part.start_ns[0], 0))
            self._spans[only] = (begin, part.end_ns[-1])
            return
        for thread, start, end in zip(part.thread, part.start_ns, part.end_ns, strict=True):
            if thread in self._spans or len(self._spans) < _THREADS:
                self._spans[thread] = (self._spans.get(thread, (start, 0))[0], end)

    def reading(self, sized: bool = True) -> Reading:
        """What the window says so far; in steps, when no batch of the task has had a size."""
        of, (task, units, end_ns) = self.sums, self._last
        if not sized:
            units = "steps"
            of = of._replace(counted=of.timed, counted_items=of.timed, counted_ns=of.busy_ns)
        split = of.split > 0
        rate = of.counted_items * 1e9 / of.counted_ns if of.counted_ns else None
        if rate is not None and len(self._spans) > 1:
            rate *= concurrency(self._spans.values())
        return Reading(
            task=task,
            units=units,
            first=self.first,
            steps=of.steps,
            items=of.counted_items if of.counted else None,
            seconds=of.counted_ns / 1e9,
            rate=rate,
            loading_seconds=of.loading_ns / 1e9 if split else None,
            compute_seconds=of.compute_ns / 1e9 if split else None,
            pause_seconds=of.pause_ns / 1e9,
            end_ns=end_ns,
        )


class Rates:
    """Reads windows off the steps of every task; a sink of the step model.

    Args:
        emit: Called with each window's reading when it closes.
        interval: The length of a window.
        skip: What to leave out at the beginning of each task.
    """

    def __init__(
        self,
        emit: Callable[[Reading], object],
        interval: Span = ONE_STEP,
        skip: Span = NOTHING,
    ) -> None:
        self._emit = emit
        self._interval = interval
        self._skip = skip
        self._began: dict[str, int] = {}
        self._windows: dict[str, _Window] = {}
        self._sized: set[str] = set()

    def __call__(self, steps: Steps) -> None:
        """Take in steps."""
        for columns in steps.by_task():
            task = columns.task[0]
            if task not in self._began:
                if len(self._began) >= _TASKS:
                    continue
                self._began[task] = columns.start_ns[0]
            self._take(task, columns, self._skipped(task, columns))

    def finish(self) -> None:
        """The run is over: the windows still open count too."""
        for task, window in self._windows.items():
            self._emit(window.reading(task in self._sized))
        self._windows.clear()

    def current(self) -> list[Reading]:
        """What the windows that are still open say so far."""
        return [w.reading(task in self._sized) for task, w in list(self._windows.items())]

    def _skipped(self, task: str, columns: Columns) -> int:
        """How many of the steps belong to what is skipped."""
        if self._skip.steps is not None:
            return bisect_left(columns.number, self._skip.steps)
        until = self._began[task] + round((self._skip.seconds or 0) * 1e9)
        return bisect_left(columns.start_ns, until)

    def _take(self, task: str, columns: Columns, at: int) -> None:
        n = len(columns.task)
        while at < n:
            window = self._windows.get(task)
            if window is None:
                window = self._windows[task] = _Window(columns.start_ns[at], columns.number[at])
            stop, closes = self._stop(window, columns, at)
            window.add(columns.part(at, stop))
            if window.sums.sized:
                self._sized.add(task)
            if closes:
                del self._windows[task]
                self._emit(window.reading(task in self._sized))
            at = stop

    def _stop(self, window: _Window, columns: Columns, at: int) -> tuple[int, bool]:
        """Where the window ends within ``columns``, and whether it does."""
        n = len(columns.task)
        if self._interval.steps is not None:
            stop = at + self._interval.steps - window.sums.steps
        else:
            until = window.opened_ns + round((self._interval.seconds or 0) * 1e9)
            stop = bisect_left(columns.end_ns, until, at) + 1
        return min(stop, n), stop <= n
