"""Where callables have been placed in libraries."""

from __future__ import annotations

from collections.abc import Callable

from overseer.recorder import recorder, table
from overseer.recorder.sites import NOTHING, STRUCTURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Places:
    """Where callables have been placed; ``remove`` puts back what was there.

    Attributes:
        halves: Sites whose ``enter`` and ``leave`` are called by torch.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self.halves: list[Any] = []

    def around(
        self, owner: Any, name: str, kind: int, read: int = NOTHING, argument: int = -1
    ) -> None:
        """Record each call of ``owner.name``.

        Args:
            owner: A class or module; what it does not have itself is left alone.
            name: The function.
            kind: The kind of event.
            read: What is read of each call, ``argument`` the index of which.
            argument: Also tells the event's object.
        """
        inner = vars(owner).get(name)
        if inner is None:
            return
        label = f"{owner.__name__}.{name}"
        self.put(owner, name, recorder.span(table.add(kind, label), kind, inner, read, argument))

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name``."""
        before = vars(owner).get(name)
        setattr(owner, name, value)

        def undo() -> None:
            if vars(owner).get(name) is value:  # Else somebody has put another around it.
                setattr(owner, name, before)

        self._undo.append(undo)

    def keep(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` when all is taken out."""
        self._undo.append(undo)

    def half(self, kind: int, label: str) -> Any:
        """A site whose ``enter`` and ``leave`` are the halves of a span."""
        self.halves.append(recorder.Site(table.add(kind, label), kind, ring=STRUCTURE))
        return self.halves[-1]

    def remove(self) -> None:
        """Take everything out."""
        while self._undo:
            self._undo.pop()()
