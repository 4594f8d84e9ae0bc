"""Which optimizer's step ends a step of the loop, where a script has several optimizers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .sizing import Batch

#: How often the others come round again, at most, before one of them ends an iteration; and how
#: many iterations, at most, they have not been a part of before.
ROUNDS = 8


class Turns:
    """Tells the optimizer step that ends an iteration from those that belong to the same one.

    An optimizer that steps on a batch of its own ends an iteration, and so does one that has just
    been made. Where no loader shows batches, the first optimizer to come round does; one that comes
    round twice before it takes its place.

    That one does not as long as it seems to learn again within the iteration, as a generator that
    learns twice for each of the discriminator's steps: from what it has just learned from, or while
    a loader's batch is worked on. Where the one that ends iterations learned from one batch over
    and over, or by itself for long, the other begins another phase of the training.

    Attributes:
        loaded: The iteration's batch is a loader's, and none has been asked for another since.
    """

    __slots__ = ("_alone", "_anchor", "_batch", "_before", "_others", "_rounds", "loaded")

    def __init__(self) -> None:
        self._anchor: Hashable = None
        self._batch: Batch | None = None
        self._before: Batch | None = None
        self._others: dict[Hashable, Batch | None] = {}
        self._rounds = self._alone = 0
        self.loaded = False

    def __call__(
        self, optimizer: Hashable, fed: bool, made: bool, learned: bool, batch: Batch | None
    ) -> bool:
        """Whether the iteration ends with this step.

        Args:
            optimizer: A name for it; the same for one that trains the same parameters.
            fed: A loader's batch has been learned from since the last iteration.
            made: An optimizer has been made since.
            learned: ``backward`` has been called since any optimizer stepped.
            batch: What was learned from, where it can be known again.
        """
        if optimizer == self._anchor or fed or made or self._anchor is None:
            self._before = self._batch if optimizer == self._anchor else None
            self._anchor, self._batch, self.loaded = optimizer, batch, fed
            self._alone += 1
            if self._others:
                self._clear()
            return True
        if not learned:
            return False  # Two optimizers share a model.
        if optimizer not in self._others:
            self._others[optimizer] = batch
            return False
        last = self._others[optimizer]
        if self._within() and (self.loaded or self._again(last, batch)):
            self._rounds += 1
            self._others = {optimizer: batch}  # The others may come round with it.
            return False
        self._before = last
        self._anchor, self._batch, self.loaded = optimizer, batch, False
        self._clear()
        return True

    def _clear(self) -> None:
        self._others.clear()
        self._rounds = self._alone = 0

    def _within(self) -> bool:
        """Whether the others may still be a part of the iteration."""
        return self._rounds < ROUNDS and self._alone <= ROUNDS

    def _again(self, last: Batch | None, batch: Batch | None) -> bool:
        """Whether it is learned once more from a batch that no iterations of their own share."""
        if batch is None or batch != last:
            return False
        return self._before is None or self._before != self._batch


def role_of(optimizer: Any) -> Hashable:
    """A name for what an optimizer, or a module, trains: its first parameter."""
    try:
        groups = getattr(optimizer, "param_groups", None)
        return id(next(optimizer.parameters()) if groups is None else groups[0]["params"][0])
    except Exception:
        return id(optimizer)
