"""Places callables in libraries, and takes them out again."""

from __future__ import annotations

from collections.abc import Callable

from overseer.recorder import recorder, table
from overseer.recorder.sites import NOTHING, STRUCTURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Places:
    """Callables placed in libraries; ``remove`` restores the originals.

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
            owner: A class or module; inherited functions are left alone.
            name: The function.
            kind: The kind of event.
            read: The value to read from each call: a constant of ``recorder.sites``.
            argument: Index of the argument to read it from, and to identify the object by.
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
            if vars(owner).get(name) is value:  # Otherwise another wrapper is around it.
                setattr(owner, name, before)

        self._undo.append(undo)

    def keep(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` on removal."""
        self._undo.append(undo)

    def half(self, kind: int, label: str) -> Any:
        """Make a site whose ``enter`` and ``leave`` are the halves of a span."""
        self.halves.append(recorder.Site(table.add(kind, label), kind, ring=STRUCTURE))
        return self.halves[-1]

    def remove(self) -> None:
        """Restore all originals, the latest first."""
        while self._undo:
            self._undo.pop()()
