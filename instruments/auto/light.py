"""Counting steps at a fraction of the cost, where a loop repeats one simple pattern.

What a step looks like is known after a few dozen of them. If steps are so short that watching each
one in full would show in their time, most are then only counted: their items and their loss are
still taken, their phases are not. Whatever does not fit the pattern ends it at once, and what had
been seen of the step until then is handed on.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

#: What watching a step in full costs, roughly, and the share of a step that it may take.
FULL_NS, SHARE = 40_000, 0.005
#: Alike steps before the pattern is believed, and the most that are only counted in a row.
ALIKE, MOST = 32, 256


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


class Counting:
    """The state of light steps; hooks look at ``on`` first.

    Args:
        switch: Called with True when light steps begin, with False when they end.

    Attributes:
        on: Steps are only counted.
        left: How many more of them.
        pattern: What they look like.
        loss: What ``backward`` was called on in this step.
        scaled: What a gradient scaler was given in this step.
        items: The size of the step's batch.
        last: That of the step before.
        thread: The thread whose steps they are.
    """

    __slots__ = (
        "_loop",
        "_switch",
        "items",
        "last",
        "left",
        "loss",
        "on",
        "pattern",
        "scaled",
        "thread",
    )

    def __init__(self, switch: Callable[[bool], None]) -> None:
        self._switch = switch
        self._loop: Any = None
        self.pattern = Pattern(0, 0, None)
        self.on = False
        self.left = 0
        self.loss: Any = None
        self.scaled: Any = None
        self.items: int | None = None
        self.last: int | None = None
        self.thread = 0

    def consider(self, loop: Any) -> None:
        """Only count the steps that follow, if they are alike and short."""
        if loop.alike < ALIKE or loop.step_ns <= 0:
            return
        self.left = min(MOST, int(FULL_NS / (SHARE * loop.step_ns)) - 1)
        if self.left > 0:
            self._loop, self.pattern = loop, loop.pattern
            self.loss = self.scaled = self.items = None
            self.last = loop.items
            self.thread = get_ident()
            self.on = True
            self._switch(True)

    def same(self) -> int | None:
        """The size of a step's batch where no other was seen: a loader's is used once more."""
        return self.last if self.pattern.source is not None else None

    def done(self, now: int) -> None:
        """The last light step has ended."""
        self.on = False
        self._switch(False)
        self._loop.resume(now)

    def leave(self) -> None:
        """Something does not fit: look at everything again, from the middle of this step on."""
        self.on = False
        self._switch(False)
        loop, pattern = self._loop, self.pattern
        loop.resume(0)
        if self.items is not None and pattern.source is not None:
            loop.batches.fetched(pattern.source, self.items)
        elif self.items is not None:
            loop.batches.given(pattern.model, self.items)
        if self.scaled is not None:
            loop.scales(self.scaled)
        if self.loss is not None:
            loop.learned(self.loss)
        self.loss = self.scaled = self.items = None
