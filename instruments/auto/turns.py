"""Which optimizer's step ends a step of the loop, where a script has several optimizers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Turns:
    """Tells the optimizer step that ends an iteration from those that belong to the same one.

    An optimizer that steps on a batch of its own ends an iteration, and so does one that has just
    been made. Where no loader shows batches,
    the first optimizer to come round does; one that comes round twice before it takes its place.
    """

    __slots__ = ("_anchor", "_others")

    def __init__(self) -> None:
        self._anchor: Hashable = None
        self._others: set[Hashable] = set()

    def __call__(self, optimizer: Hashable, fresh: bool, learned: bool) -> bool:
        """Whether the iteration ends with this step.

        Args:
            optimizer: A name for it; the same for one that trains the same parameters.
            fresh: A loader's batch has been learned from since the last iteration, or an optimizer
                has been made.
            learned: ``backward`` has been called since any optimizer stepped.
        """
        if optimizer == self._anchor or fresh or self._anchor is None:
            self._anchor = optimizer
            if self._others:
                self._others.clear()
            return True
        if not learned:
            return False  # Two optimizers share a model.
        if optimizer in self._others:
            self._anchor = optimizer
            self._others.clear()
            return True
        self._others.add(optimizer)
        return False


def role_of(optimizer: Any) -> Hashable:
    """A name for what an optimizer, or a module, trains: its first parameter."""
    try:
        groups = getattr(optimizer, "param_groups", None)
        return id(next(optimizer.parameters()) if groups is None else groups[0]["params"][0])
    except Exception:
        return id(optimizer)
