"""Which steps are recorded: ``A:B``, one in ``N``, for so long."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overseer.measure.steps import STEP_PAIRS

if TYPE_CHECKING:
    from overseer.measure.step import Step

Event = dict[str, Any]
TRAIN = "train"


class Window:
    """Counts the steps of training as they end, and says when recording opens and closes.

    Args:
        steps: The first step, and the one before which it ends; None for any.
        every: One step in so many.
        change: Told whether the step that now begins is recorded, whenever that changes.

    Attributes:
        count: Steps that have ended.
        everything: Every step is recorded.
        insistent: ``change`` is told again with every step.
        reached: Whether any step was one to be recorded.
        recorded: Steps that have ended and were.
    """

    def __init__(
        self,
        steps: tuple[int, int | None] | None,
        every: int,
        change: Callable[[bool], object],
    ) -> None:
        self._first, self._last = steps or (0, None)
        self._every = every
        self._change = change
        self._counts = {"step": 0, "pair": 0}
        self.count = self.recorded = 0
        self.everything = steps is None and every == 1
        self.insistent = False
        self._open = self.holds(0)
        self.reached = self._open

    @property
    def open(self) -> bool:
        """Whether the step that is under way is recorded."""
        return self._open

    def holds(self, number: int) -> bool:
        """Whether the step ``number`` is one to be recorded."""
        last = self._last is None or number < self._last
        return self._first <= number and last and (number - self._first) % self._every == 0

    def hear(self, event: Event) -> None:
        """An event that may say that a step has ended."""
        if event.get("task", TRAIN) != TRAIN:
            return
        wrap = event.get("$wrap")
        if wrap is None:
            if "step" in event:
                self._ended("step")
        elif wrap.get("name") in STEP_PAIRS and wrap.get("step") == "end":
            self._ended("pair")

    def _ended(self, source: str) -> None:
        """A step has ended; a script that says so in two ways is heard in one."""
        self._counts[source] += 1
        if self._counts[source] > self.count:
            self.count = self._counts[source]
            self.recorded += self._open
            opened = self.holds(self.count)
            if opened is not self._open or self.insistent:
                self._open = opened
                self.reached = self.reached or opened
                self._change(opened)


class Part:
    """A part of the run, and which of its steps are recorded; they are judged when it may be over.

    Attributes:
        begin: When it began, on the monotonic clock.
        end: When it ended.
    """

    def __init__(self, window: Window, begin: int) -> None:
        self._window = window
        self._first: int | None = None
        self.begin, self.end = begin, sys.maxsize

    def holds(self, step: Step) -> bool:
        """Whether ``step``, whose number counts from the run's beginning, is to be recorded."""
        if not self.begin <= step.end_ns <= self.end:
            return False
        if self._first is None:
            self._first = step.number
        return self._window.holds(step.number - self._first)
