"""Steps that marks and pairs of the script, or of a voirfile, tell on one thread (rule 1)."""

from __future__ import annotations

from .steps import Step

#: Steps that a weaker source tells are held back while a stronger one is expected: so many.
AHEAD = 64


class Told:
    """What tells the steps of one task on one thread, and the open step's numbers.

    Attributes:
        task: The task's name.
        marked: Whether marks tell its steps, and ``paired`` whether pairs do.
        by_script: Whether the script itself tells them; what a voirfile tells only adds to these.
        early: Steps that something weaker has told while marks or pairs were expected.
        overdue: Whether that was waited for in vain.
        end: When the last step ended, ns; 0: there was none.
        before: The thread's time by part up to then.
        sized: Whether batches are given with its marks or pairs.
        sizes: Items of the open step, from its pairs, and ``batches`` from batches given alone.
        opened: When the open pair began, ns; 0: none is open.
        entered: When the last loop or call began in which marks come; ``before_entered``: as
            ``before``.
        others: The time of steps of other tasks since the last step; None: there were none.
        inner: Whether the last step had steps of other tasks within it; None: there was none.
        split: Whether pairs of its own say what is loading and what compute.
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
        """Whether marks or pairs tell its steps."""
        return self.marked or self.paired

    def state(self) -> tuple[object, ...] | None:
        """All that the next step begins with but numbers; None: something is held back."""
        if self.early or self.sizes or self.batches:
            return None
        flags = self.marked, self.paired, self.by_script, self.overdue, self.sized, self.inner
        return (*flags, self.split, self.opened > 0, self.entered, self.others is None, self._begun)

    def hold(self, step: Step) -> list[Step]:
        """Hold a step back; returns the steps that are not held back any longer."""
        self.early.append(step)
        if len(self.early) < AHEAD:
            return []
        self.overdue = True
        return self.taken()

    def taken(self) -> list[Step]:
        """The steps that were held back, and no longer are."""
        steps, self.early = self.early, []
        return steps

    def begins(self, items: float) -> None:
        """A pair begins, on so many items if that is known by then."""
        self._begun = items == items
        if self._begun:
            self.sizes.append(items)

    def ends(self, items: float) -> None:
        """A pair ends."""
        if items == items and not self._begun:
            self.sizes.append(items)
        self._begun = False

    def amount(self, items: float) -> float | None:
        """The items of the open step, if it was given any; a new one begins.

        Args:
            items: Those of its mark; NaN: it has none.
        """
        sizes, self.sizes = self.sizes, []
        batches, self.batches = self.batches, []
        if items == items:
            return items
        given = sizes or batches
        return sum(given) if given else None
