"""Counting steps at a fraction of the cost, where a loop repeats one simple pattern.

What a step looks like is known after a few dozen of them. If steps are so short that watching each
one in full would show in their time, most are then only counted: their items and their loss are
still taken, their phases are not. Where somebody else tells of steps and losses, not even that is
done. Whatever does not fit the pattern ends it at once, and what had been seen of the step until
then is handed on.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from overseer.measure.waiting import Lull

#: What watching a step in full costs, with the switching there and back, and the share of all
#: steps' time that it may take.
FULL_NS, SHARE = 400_000, 0.002
#: Alike steps before the pattern is believed; how many are only counted in a row.
ALIKE, LEAST, MOST = 32, 4, 512


class Pattern(NamedTuple):
    """What all steps have in common.

    Attributes:
        optimizer: The optimizer that steps once.
        model: The model whose forward runs once; the size of its batch is that of the step.
        source: The loader that feeds it, if one does: then the size is that of the loader's batch.
    """

    optimizer: int
    model: int
    source: Hashable | None


class Counting(Lull):
    """The state of light steps; hooks look at ``on`` first.

    Where a loader feeds them, they end when it is asked for a batch behind the last of them.

    Args:
        switch: Called with True when light steps begin, with False when they end.
        size: Sizes a loader's batch.
        way: Returns what gets at the tensor that sizes batches of a kind, in C; or None.
        now: Reads the clock.

    Attributes:
        on: Steps are only counted.
        ending: The last of them has its batch.
        told: Somebody else tells of steps and losses: nothing is to be counted.
        pattern: What they look like.
        optimizer: Whose step ends them.
        loss: What ``backward`` was called on in this step.
        learned_at: What ``left`` was then.
        scaled: What a gradient scaler was given in this step.
        single: Of how many dimensions a sample is that the model is given by itself; 0: a batch.
        last: The size of the last step's batch.
    """

    __slots__ = (
        "_began", "_ending", "_loop", "_now", "_size", "_switch", "ending", "last", "learned_at",
        "loss", "on", "optimizer", "pattern", "scaled", "single", "told",
    )  # fmt: skip

    def __init__(
        self,
        switch: Callable[[bool], None],
        size: Callable[[Any], int | None],
        way: Callable[[type], Callable[[Any], Any] | None],
        now: Callable[[], int],
    ) -> None:
        super().__init__(None, 0, self._end, size, way)
        self._switch, self._size, self._now = switch, size, now
        self._began = (0, 0)
        self._ending = allocate_lock()
        self._loop: Any = None
        self.pattern = Pattern(0, 0, None)
        self.optimizer = self.learned_at = self.single = 0
        self.on = self.ending = self.told = False
        self.loss: Any = None
        self.scaled: Any = None
        self.last: int | None = None
        self.thread = 0

    def consider(self, loop: Any, told: bool) -> None:
        """Only count the steps that follow, if they are alike and short."""
        if loop.alike < ALIKE or loop.step_ns <= 0:
            return
        self.left = min(MOST, int(FULL_NS / (SHARE * loop.step_ns)) - 1)
        if self.left >= LEAST:
            self._loop, self.pattern = loop, loop.pattern
            self.optimizer, _, self.source = loop.pattern
            self.told = told and self.source is not None
            self.size = None if self.told else self._size
            self.loss = self.scaled = self.items = None
            self.last, self.single = loop.items, loop.given.single
            self.thread = get_ident()
            self._began = self._now(), self.left
            self.ending, self.on = False, True
            self._switch(True)

    def _end(self) -> None:
        """The last batch has come: with the next, look at everything again."""
        self.ending = True

    def same(self) -> int | None:
        """The size of a step's batch where no other was seen: a loader's is used once more."""
        return self.last if self.source is not None else None

    def cease(self) -> None:
        """Another thread works, too: let these steps end with the one that is at work."""
        self.settle()
        self.left, self.ending = 1, True

    def lasts(self, source: Hashable) -> bool:
        """Whether they go on where this loader has no more: with its next epoch."""
        waits = self.loss is None and self.items is None
        return waits and source == self.source and not self.ending

    def done(self, now: int) -> None:
        """The last light step has ended."""
        if self._ends():
            self._loop.resume(now, False)

    def leave(self, between: bool = False, again: bool = False) -> None:
        """Look at everything again, from the middle of this step on, or ``between`` two.

        Called by the thread whose steps they are; see :meth:`cease`.

        Args:
            between: No step is at work.
            again: ``backward`` is called once more.
        """
        if not self._ends():
            return
        loop = self._loop
        loop.resume(0, not between)
        self._hand_on(loop)
        if self.loss is not None:
            loop.learned(self.loss)
            if again and (self.source is None or self.left != self.learned_at):
                self._hand_on(loop)  # A batch of its own, that nobody saw: one like the first.
        if self.scaled is not None:
            loop.scales(self.scaled)
        self.loss = self.scaled = self.items = None

    def _hand_on(self, loop: Any) -> None:
        """Tell of this step's batch."""
        if self.items is not None and self.source is not None:
            loop.batches.fetched(self.source, self.items)
        elif self.items is not None:
            loop.batches.given(self.pattern.model, self.items)

    def _ends(self) -> bool:
        """Whether they were going on until now."""
        with self._ending:
            on, self.on = self.on, False
        if on:
            self.settle()
            began, most = self._began
            if most > self.left:  # The steps before, watched one by one, were longer than these.
                self._loop.step_ns = (self._now() - began) // (most - self.left)
            self._switch(False)
        return on
