"""Windows of steps: items a second, loading and compute, one window after the other."""

from __future__ import annotations

from .alike import Alike
from .events import LOADING
from .spans import Span
from .steps import NAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .steps import Step

#: Tasks, and threads of one, that are told apart.
TASKS, THREADS = 64, 64


def abreast(spans: Iterable[tuple[int, int]]) -> float:
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


class Threads:
    """When each thread that works on a task began its first step, and ended its last."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: dict[int, list[int]] = {}

    def add(self, step: Step) -> None:
        """Take in a step."""
        span = self._spans.get(step.thread)
        if span is not None:
            span[1] = step.end
        elif len(self._spans) < THREADS:
            self._spans[step.thread] = [step.start, step.end]

    @property
    def abreast(self) -> float:
        """How many of them work at once."""
        return abreast((begin, end) for begin, end in self._spans.values())


class Window:
    """The steps of one task since a window was opened.

    Attributes:
        task: The task.
        first: Number of its first step.
        opened: When that began, ns.
        steps: How many have ended in it.
        items: Of them; NaN: unknown.
        ns: Their time, without pauses; ``loading`` of it waiting for batches.
    """

    def __init__(self, step: Step) -> None:
        self.task, self.first, self.opened = step.task, step.number, step.start
        self.steps = self.ns = self.loading = 0
        self.items = 0.0
        self._loaded = False
        self._threads = Threads()

    def add(self, step: Step, n: int, ns: int) -> None:
        """Take in a step, or ``n`` that are not told apart, of ``ns``."""
        self.steps += n
        self.items += step.items
        self.ns += ns
        self.loading += step.parts[LOADING]
        self._loaded |= step.loaded
        self._threads.add(step)

    @property
    def units(self) -> str:
        """What the amount is: items, or steps where those are not known."""
        return "items" if self.items == self.items else "steps"

    def _per_second(self, ns: int) -> float | None:
        amount = self.items if self.items == self.items else self.steps
        return amount * 1e9 / ns if ns > 0 else None

    @property
    def rate(self) -> float | None:
        """Items a second; over threads that work at the same time, summed."""
        rate = self._per_second(self.ns)
        return None if rate is None else rate * self._threads.abreast

    @property
    def loading_rate(self) -> float | None:
        """Items a second of waiting: how fast the loader alone would feed the task."""
        return self._per_second(self.loading) if self._loaded else None

    @property
    def compute_rate(self) -> float | None:
        """Items a second of work: how fast the task would be with a loader that never waits."""
        return self._per_second(self.ns - self.loading) if self._loaded else None

    @property
    def loading_share(self) -> float | None:
        """Loading as a part of loading and compute."""
        return self.loading / self.ns if self._loaded and self.ns > 0 else None

    @property
    def compute_share(self) -> float | None:
        """Compute as a part of loading and compute."""
        share = self.loading_share
        return None if share is None else 1 - share


class _Task:
    """When a task began, how many steps it has had, its window; NaN once items are unknown."""

    __slots__ = ("began", "multiplier", "steps", "window")

    def __init__(self, began: int) -> None:
        self.began, self.steps, self.multiplier = began, 0, 1.0
        self.window: Window | None = None


class Rates:
    """Reads windows off the steps of every task.

    Items of a task are unknown from the first step on of which they are: its windows are in steps.

    Args:
        emit: Called with each window when it closes.
        interval: The length of a window.
        skip: What to leave out at the beginning of each task.
        multiplier: Items are counted this many times.
    """

    def __init__(
        self,
        emit: Callable[[Window], object],
        interval: Span,
        skip: Span | None = None,
        multiplier: int = 1,
    ) -> None:
        self._emit, self._interval, self._multiplier = emit, interval, multiplier
        self._skip = skip or Span(steps=0)
        self._tasks: dict[str, _Task] = {}

    def add(self, steps: Iterable[Step]) -> None:
        """Take in finished steps."""
        for step in steps:
            task = self._tasks.get(step.task)
            if task is None:
                if len(self._tasks) >= TASKS:
                    continue
                task = self._tasks[step.task] = _Task(step.start)
            if isinstance(step, Alike) and self._divides(task, step):
                self.add(step.each())
                continue
            n, task.steps, ns = step.number - task.steps, step.number, step.ns
            if step.items != step.items:
                task.multiplier = NAN
            if not ns or self._skips(
                step.number, step.start, task.began
            ):  # Nobody knows when it began.
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

    def _divides(self, task: _Task, steps: Alike) -> bool:
        """Whether a skip or a window may end among steps that were counted together."""
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

    def _close(self, task: _Task) -> None:
        window, task.window = task.window, None
        if window is not None:
            window.items *= self._multiplier * task.multiplier
            self._emit(window)

    def finish(self) -> None:
        """The run is over: the windows still open count too."""
        for task in self._tasks.values():
            self._close(task)
