"""What a thread's loop tells of its steps, and whom."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

from .passes import Pass


class Opening(NamedTuple):
    """The longest that the first step's batch has waited until a model was given it.

    Attributes:
        waited: So many nanoseconds.
        began: When the forward did that came then.
        tried: When it came; or when the last forward ended that it was given to.
        source: The loader that gave it; None without.
    """

    waited: int
    began: int
    tried: int = 0
    source: Hashable = None

    def again(self, begin: int) -> Opening:
        """A model is given it."""
        waited = begin - self.tried if self.tried else 0
        return self._replace(waited=waited, began=begin) if waited > self.waited else self


class Spent(NamedTuple):
    """Nanoseconds of a step, by phase; ``end`` is when it ended.

    Attributes:
        began: When the first forward of the first step did; else 0.
        opening: How its batch waited for that; None behind the first step.
    """

    end: int
    loading: int
    transfer: int
    forward: int
    backward: int
    optimizer: int
    began: int = 0
    opening: Opening | None = None

    @property
    def phases(self) -> tuple[int, ...]:
        """Those nanoseconds, in the order of a step."""
        return self.loading, self.transfer, self.forward, self.backward, self.optimizer


class Sink(Protocol):
    """What becomes of what a loop shows.

    Attributes:
        holding: The first step is held back until its iteration is over.
        told: Somebody else tells of steps and losses.
        train: How many training steps there have been.
    """

    holding: bool
    told: bool
    train: int

    def step(
        self,
        now: int,
        items: int | None,
        losses: list[Any],
        spent: Spent | None,
        late: bool = False,
        more: bool = False,
    ) -> None:
        """A training step has ended; not all of it was seen where it is not known what it spent.

        It is told ``late`` where that was a while ago. Its iteration may have ``more`` optimizers.
        """

    def mark(self, now: int) -> object:
        """The device's mark for what has just ended; None where there is none."""

    def lasts(self, now: int) -> None:
        """The iteration in which it ended has gone on until ``now``, with another optimizer."""

    def fetches(self) -> None:
        """A loader is asked for a batch while something is held back."""

    def counted(self, items: int | None, loss: Any) -> None:
        """A training step has ended of which only this was seen; the loss may hang on its graph."""

    def evaluated(self, made: Pass) -> None:
        """A forward pass that nothing is learned from has ended."""

    def resumes(self, began: int) -> None:
        """Training has gone on behind an evaluation, which lasted until then."""

    def other(self, role: Hashable, losses: list[Any]) -> None:
        """Another optimizer has stepped in the same iteration, on losses of its own."""

    def count_tokens(self) -> None:
        """Loaders say how many tokens their batches hold, which are counted."""

    def settle(
        self, over: bool = False, asked: bool = False, again: bool = False, once: bool = False
    ) -> None:
        """The iteration in which the first step ended is over, if the calling thread's that was.

        It is certainly where the next batch is ``asked`` for, or the run is ``over``; and most
        likely where the same optimizer is to step ``again``. Its batch, and all of it, seems to be
        learned from ``once`` more, if none was asked for.
        """
