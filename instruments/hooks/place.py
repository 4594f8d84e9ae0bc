"""Placing the recorder's callables in classes and modules of libraries, and taking them out."""

from __future__ import annotations

from overseer.recorder import recorder, table
from overseer.recorder.sites import NOTHING, STRUCTURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Places:
    """Where callables have been placed; ``remove`` puts back what was there."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def site(self, kind: int, label: str) -> int:
        """A number in the table of sites."""
        return table.add(kind, label)

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
        self.put(owner, name, recorder.span(self.site(kind, label), kind, inner, read, argument))

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
        return recorder.Site(self.site(kind, label), kind, ring=STRUCTURE)

    def remove(self) -> None:
        """Take everything out."""
        while self._undo:
            self._undo.pop()()
