"""Steps of optimizers that call no hooks: those within what ``torch.compile`` has compiled."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

from .sizing import Batch

#: Steps that are held back until it is believed that an optimizer steps unseen.
BELIEVED = 3


class Held(NamedTuple):
    """A step that is held back.

    Attributes:
        now: When it ended, or soon after.
        items: How many it had.
        losses: What was learned from.
        batch: The first batch of it.
    """

    now: int
    items: int | None
    losses: list[Any]
    batch: Batch | None


class Unseen:
    """Tells from a parameter whether its optimizer has stepped; torch counts changes in place.

    Others change parameters, too, before an optimizer steps for the first time, but not for long.

    Attributes:
        on: No optimizer has been seen to step.
        held: Steps that nobody has been told of.
    """

    __slots__ = ("_made", "_parameter", "_version", "held", "on")

    def __init__(self) -> None:
        self.on = True
        self.held: list[Held] | None = []
        self._made: Any = None
        self._parameter: Any = None
        self._version = 0

    def made(self, optimizer: Any) -> None:
        """The script makes an optimizer; its parameters are not there yet."""
        self._made = ref(optimizer)

    def changed(self) -> bool:
        """Whether the last optimizer's parameters have been changed since this was last asked."""
        made, before = self._made, self._parameter
        if made is not None:
            optimizer, self._made = made(), None
            groups = getattr(optimizer, "param_groups", ())
            own = (each for group in groups for each in group["params"] if each.requires_grad)
            before, self._parameter = None, next(map(ref, own), None)
        parameter = self._parameter and self._parameter()
        if parameter is None:
            return False
        version, self._version = self._version, parameter._version
        return before is not None and version != self._version

    def seen(self) -> list[Held]:
        """An optimizer is seen to step; returns what was held back, which belongs to its step."""
        self.on = False
        held, self.held = self.held, None
        return held or []
