"""Combines the steps of several optimizers into one training step (R9, R10)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .steps import Step

#: Steps of one optimizer without the first one before it defines the steps (R10); and the maximum
#: count of remembered rounds.
MAX_UNPAIRED, MAX_ROUNDS = 8, 16


class Round:
    """Optimizer steps until a new batch, a new optimizer, or the next step of the first one.

    Args:
        close: Called with the turns of one step; an optimizer ended each.
    """

    __slots__ = ("_close", "_seen", "_turns", "_usual")

    def __init__(self, close: Callable[[list[Step]], object]) -> None:
        self._close = close
        self._turns: list[Step] = []
        self._usual = 1
        self._seen: set[tuple[int | None, ...]] = set()

    @property
    def complete(self) -> bool:
        """Whether as many optimizers as in the last round have stepped."""
        return len(self._turns) >= self._usual

    @property
    def first(self) -> Step | None:
        """The first turn, if any; ``single``: whether it is the only one."""
        return self._turns[0] if self._turns else None

    @property
    def single(self) -> bool:  # noqa: D102
        return len(self._turns) <= 1

    def add(self, turn: Step) -> None:
        """Add a turn that an optimizer ended."""
        if self._turns and turn.optimizer == self._turns[0].optimizer:
            self.flush()
        turns = self._turns
        turns.append(turn)
        if len(turns) <= MAX_UNPAIRED:
            return
        own = [one for one in turns if one.optimizer == turn.optimizer]
        if len(own) > MAX_UNPAIRED:  # R10: the first one steps no more.
            others = [one for one in turns if one.optimizer != turn.optimizer]
            if others:
                self._close(others)
            for one in own[:-1]:
                self._close([one])
            self._turns = own[-1:]

    def flush(self) -> None:
        """Close the round as one step."""
        turns, self._turns = self._turns, []
        if turns:
            self._usual = len(turns)
            if len(turns) > 1 and len(self._seen) < MAX_ROUNDS:
                self._seen.add(tuple(turn.optimizer for turn in turns))
            self._close(turns)

    def end(self) -> None:
        """Close the last round: one step if there was such a round before, otherwise several.

        Then each turn with a backward begins a step, to which later turns without one belong.
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
        """Remove and return the turns, for a step that marks or pairs define."""
        turns, self._turns = self._turns, []
        return turns
