"""Steps of several optimizers that are one step of the training (R9, R10)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .steps import Step

#: An optimizer that steps more often without the first one tells the steps from there on; and how
#: many kinds of rounds are remembered.
MOST, KINDS = 8, 16


class Round:
    """Optimizers' steps until a new batch comes, an optimizer is made, or the first steps again.

    Args:
        close: Called with the turns of one step, each ended by an optimizer.
    """

    __slots__ = ("_close", "_seen", "_turns", "_usual")

    def __init__(self, close: Callable[[list[Step]], object]) -> None:
        self._close = close
        self._turns: list[Step] = []
        self._usual = 1
        self._seen: set[tuple[int | None, ...]] = set()

    @property
    def complete(self) -> bool:
        """Whether as many optimizers have stepped as in the last round."""
        return len(self._turns) >= self._usual

    @property
    def first(self) -> Step | None:
        """What has stepped first; ``single``: whether nothing has since."""
        return self._turns[0] if self._turns else None

    @property
    def single(self) -> bool:  # noqa: D102
        return len(self._turns) <= 1

    def add(self, turn: Step) -> None:
        """An optimizer has ended ``turn``."""
        if self._turns and turn.optimizer == self._turns[0].optimizer:
            self.flush()
        turns = self._turns
        turns.append(turn)
        if len(turns) <= MOST:
            return
        own = [one for one in turns if one.optimizer == turn.optimizer]
        if len(own) > MOST:  # R10: the first one is gone.
            others = [one for one in turns if one.optimizer != turn.optimizer]
            if others:
                self._close(others)
            for one in own[:-1]:
                self._close([one])
            self._turns = own[-1:]

    def flush(self) -> None:
        """What has stepped was one step."""
        turns, self._turns = self._turns, []
        if turns:
            self._usual = len(turns)
            if len(turns) > 1 and len(self._seen) < KINDS:
                self._seen.add(tuple(turn.optimizer for turn in turns))
            self._close(turns)

    def end(self) -> None:
        """No more of these will come: one step if there was such a round before; else each is one,
        with those behind it that had no backward of their own.
        """
        if len(self._turns) < 2 or tuple(turn.optimizer for turn in self._turns) in self._seen:
            self.flush()
            return
        turns, self._turns = self._turns, []
        while turns:
            n = next((n for n, turn in enumerate(turns) if n and turn.backwards), len(turns))
            self._close(turns[:n])
            turns = turns[n:]

    def taken(self) -> list[Step]:
        """The turns, which somebody else tells of."""
        turns, self._turns = self._turns, []
        return turns
