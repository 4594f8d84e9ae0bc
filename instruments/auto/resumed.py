"""When training goes on behind an evaluation whose end nothing else shows."""

from __future__ import annotations


class Resumed:
    """Finds when a training went on that learns from the same batch in every turn.

    Nothing was prepared for it, so what lies behind the last forward pass of an evaluation, metrics
    say, is the evaluation's, until gradients are put to zero, or the next forward of the training.

    Attributes:
        waits: There was an evaluation, and no forward of the training behind it.
        at: When the training went on; 0 when that is not known.
    """

    __slots__ = ("_sign", "at", "waits")

    def __init__(self) -> None:
        self.waits = False
        self.at = self._sign = 0

    def evaluated(self) -> None:
        """A forward pass of an evaluation has been made."""
        self.waits, self._sign = True, 0

    def zeroed(self, now: int) -> None:
        """Gradients are put to zero."""
        self._sign = self._sign or now

    def begins(self, now: int, same: bool) -> None:
        """A forward of the training begins, with the ``same`` batch as the one before, maybe."""
        self.at = (self._sign or now) if same else 0
        self.waits = False

    def take(self) -> int:
        """When the training went on, once."""
        at, self.at = self.at, 0
        return at
