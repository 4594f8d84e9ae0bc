"""Rates of consecutive windows of steps: items per second, loading and compute."""

from __future__ import annotations

from .alike import Alike
from .events import PART_LOADING
from .spans import Extent
from .steps import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .steps import Step

#: Maximum count of tasks, and of threads of a task.
MAX_TASKS, MAX_THREADS = 64, 64


def abreast(spans: Iterable[tuple[int, int]]) -> float:
    """The mean concurrency of spans: 1 for consecutive ones, 2 for two at the same time.

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


class Threads:
    """The extent of each thread of a task: the begin of its first step, the end of its last."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: dict[int, list[int]] = {}

    def add(self, step: Step) -> None:
        """Add a step."""
        span = self._spans.get(step.thread)
        if span is not None:
            span[1] = step.end
        elif len(self._spans) < MAX_THREADS:
            self._spans[step.thread] = [step.start, step.end]

    @property
    def abreast(self) -> float:
        """The mean concurrency of the threads."""
        return abreast((begin, end) for begin, end in self._spans.values())


class Window:
    """The steps of one task since a window was opened.

    Attributes:
        task: The task.
        first: Number of its first step.
        opened: The begin of that step, ns.
        steps: The number of steps that ended in it.
        items: Their items; NaN if unknown.
        ns: Their time without pauses; ``loading``: its part waiting for batches.
    """

    def __init__(self, step: Step) -> None:
        self.task, self.first, self.opened = step.task, step.number, step.start
        self.steps = self.ns = self.loading = 0
        self.items = 0.0
        self._loaded = False
        self._threads = Threads()

    def add(self, step: Step, n: int, ns: int) -> None:
        """Add a step, or ``n`` as one, of ``ns`` nanoseconds."""
        self.steps += n
        self.items += step.items
        self.ns += ns
        self.loading += step.parts[PART_LOADING]
        self._loaded |= step.loaded
        self._threads.add(step)

    @property
    def units(self) -> str:
        """The unit of rates: items, or steps if items are unknown."""
        return "items" if self.items == self.items else "steps"

    def _per_second(self, ns: int) -> float | None:
        amount = self.items if self.items == self.items else self.steps
        return amount * 1e9 / ns if ns > 0 else None

    @property
    def rate(self) -> float | None:
        """Items per second; concurrent threads add up."""
        rate = self._per_second(self.ns)
        return None if rate is None else rate * self._threads.abreast

    @property
    def loading_rate(self) -> float | None:
        """Items per second of loading: the speed of the loader alone."""
        return self._per_second(self.loading) if self._loaded else None

    @property
    def compute_rate(self) -> float | None:
        """Items per second of compute: the speed without waiting for the loader."""
        return self._per_second(self.ns - self.loading) if self._loaded else None

    @property
    def loading_share(self) -> float | None:
        """Loading divided by loading and compute."""
        return self.loading / self.ns if self._loaded and self.ns > 0 else None

    @property
    def compute_share(self) -> float | None:
        """Compute divided by loading and compute."""
        share = self.loading_share
        return None if share is None else 1 - share


class _TaskWindow:
    """A task's begin, step count and window; ``multiplier`` is NaN once items are unknown."""

    __slots__ = ("began", "multiplier", "steps", "window")

    def __init__(self, began: int) -> None:
        self.began, self.steps, self.multiplier = began, 0, 1.0
        self.window: Window | None = None


class Rates:
    """Collects the steps of each task in windows.

    From the first step with unknown items on, a task's windows are in steps.

    Args:
        emit: Called with each complete window.
        interval: The length of a window.
        skip: The steps or seconds to leave out at the start of each task.
        multiplier: Factor for items.
    """

    def __init__(
        self,
        emit: Callable[[Window], object],
        interval: Extent,
        skip: Extent | None = None,
        multiplier: int = 1,
    ) -> None:
        self._emit, self._interval, self._multiplier = emit, interval, multiplier
        self._skip = skip or Extent(steps=0)
        self._tasks: dict[str, _TaskWindow] = {}

    def add(self, steps: Iterable[Step]) -> None:
        """Add finished steps."""
        for step in steps:
            task = self._tasks.get(step.task)
            if task is None:
                if len(self._tasks) >= MAX_TASKS:
                    continue
                task = self._tasks[step.task] = _TaskWindow(step.start)
            if isinstance(step, Alike) and self._divides(task, step):
                self.add(step.each())
                continue
            n, task.steps, ns = step.number - task.steps, step.number, step.ns
            if step.items != step.items:
                task.multiplier = UNKNOWN
            if not ns or self._skips(step.number, step.start, task.began):  # 0: begin unknown.
                continue
            window = task.window
            if window is None:
                window = task.window = Window(step)
                if isinstance(step, Alike):
                    window.first += 1 - step.n
            window.add(step, n, ns)
            if self._closes(window.steps, window.opened, step.end):
                self._close(task)

    def _closes(self, steps: int, opened: int, end: int) -> bool:
        if self._interval.steps is not None:
            return steps >= self._interval.steps
        return end >= opened + (self._interval.seconds or 0.0) * 1e9

    def _divides(self, task: _TaskWindow, steps: Alike) -> bool:
        """Whether a skip or a window may end within steps that were counted together."""
        if self._skips(steps.number - steps.n + 1, steps.start, task.began):
            return True
        window = task.window
        if window is None:
            return self._closes(steps.n, steps.start, steps.end)
        return self._closes(window.steps + steps.n, window.opened, steps.end)

    def _skips(self, number: int, start: int, began: int) -> bool:
        if self._skip.steps is not None:
            return number <= self._skip.steps
        return start < began + (self._skip.seconds or 0) * 1e9

    def _close(self, task: _TaskWindow) -> None:
        window, task.window = task.window, None
        if window is not None:
            window.items *= self._multiplier * task.multiplier
            self._emit(window)

    def finish(self) -> None:
        """Emit the open windows at the end of the run."""
        for task in self._tasks.values():
            self._close(task)
