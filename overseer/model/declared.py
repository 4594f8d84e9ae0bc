"""Steps that a script or a voirfile defines by marks and pairs on one thread (R21 to R27)."""

from __future__ import annotations

from .steps import Step

#: Maximum count of steps of a weaker source held back for a stronger one (R21).
MAX_EARLY = 64


class DeclaredSteps:
    """The marks and pairs of one task on one thread, and the items of its open step.

    Attributes:
        task: The task's name.
        marked: Whether marks define its steps; ``paired``: whether pairs do.
        by_script: Whether the script defines them; a voirfile then only adds sizes.
        early: Steps of a weaker source, held back while marks or pairs are expected.
        overdue: Whether the expected marks or pairs did not come.
        end: The end of the last step, ns; 0 without one.
        before: The thread's time by part up to ``end``.
        sized: Whether its marks or pairs have batches.
        sizes: Items of the open step, from its pairs; ``batches``: from ``batch`` events.
        opened: The begin of the open pair, ns; 0 without one.
        entered: The begin of the last loop or call with marks; ``before_entered``: the thread's
            time by part up to it.
        others: The time of other tasks' steps since the last step; None without any.
        inner: Whether the last step contained steps of other tasks; None without a last step.
        split: Whether its pairs split its time into loading and compute.
    """

    __slots__ = (
        "_begun", "batches", "before", "before_entered", "by_script", "early", "end",
        "entered", "inner", "marked", "opened", "others", "overdue", "paired", "sized", "sizes",
        "split", "task",
    )  # fmt: skip

    def __init__(self, task: str) -> None:
        self.task = task
        self.marked = self.paired = self.by_script = self.overdue = self.sized = self.split = False
        self.early: list[Step] = []
        self.end = self.opened = self.entered = 0
        self.before = self.before_entered = [0, 0, 0, 0, 0, 0, 0]
        self.others: list[int] | None = None
        self.inner: bool | None = None
        self.sizes: list[float] = []
        self.batches: list[float] = []
        self._begun = False

    @property
    def told(self) -> bool:
        """Whether marks or pairs define its steps."""
        return self.marked or self.paired

    def state(self) -> tuple[object, ...] | None:
        """The state that decides how the next step is read; None if something is held back."""
        if self.early or self.sizes or self.batches:
            return None
        flags = self.marked, self.paired, self.by_script, self.overdue, self.sized, self.inner
        return (*flags, self.split, self.opened > 0, self.entered, self.others is None, self._begun)

    def hold(self, step: Step) -> list[Step]:
        """Hold a step back; return the steps that are released."""
        self.early.append(step)
        if len(self.early) < MAX_EARLY:
            return []
        self.overdue = True
        return self.taken()

    def taken(self) -> list[Step]:
        """Release the steps held back."""
        steps, self.early = self.early, []
        return steps

    def begins(self, items: float) -> None:
        """Begin a pair; ``items`` is NaN if not known yet."""
        self._begun = items == items
        if self._begun:
            self.sizes.append(items)

    def ends(self, items: float) -> None:
        """End a pair."""
        if items == items and not self._begun:
            self.sizes.append(items)
        self._begun = False

    def amount(self, items: float) -> float | None:
        """End the open step; return its items, None if none were given.

        Args:
            items: The items of its mark; NaN without any.
        """
        sizes, self.sizes = self.sizes, []
        batches, self.batches = self.batches, []
        if items == items:
            return items
        given = sizes or batches
        return sum(given) if given else None
