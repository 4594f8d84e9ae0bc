"""How many operations a step consists of, by the graph that its loss hangs on.

It is counted once, early on: how short an operation is tells whether calling it is most of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: The step whose operations are counted: what is made once is made by then, and before steps are
#: only counted.
STEP = 8
#: A larger graph is not walked to its end; that would take milliseconds.
MOST = 4096
#: What stands for a parameter in a graph, and is no operation.
_PARAMETER = "AccumulateGrad"


class Operations:
    """Counts the operations of one step of a loop.

    Attributes:
        due: This step's are counted.
        found: How many it has; None before it is over.
    """

    __slots__ = ("_counted", "_left", "due", "found")

    def __init__(self) -> None:
        self._left, self._counted = STEP, 0
        self.due = False
        self.found: int | None = None

    def add(self, losses: Iterable[Any]) -> None:
        """``backward`` is called on ``losses``, in a step whose operations are counted."""
        self._counted += count(losses)

    def ended(self, whole: bool) -> bool:
        """A step has ended, the ``whole`` of which was seen; returns whether it was the one."""
        if self._left:
            self._left -= 1
            self.due = not self._left
        elif self.due and whole:
            self.due, self.found = False, self._counted
            return True
        self._counted = 0
        return False


def count(losses: Iterable[Any]) -> int:
    """The operations that ``losses`` were made by and that have a gradient; at most ``MOST``."""
    open_ = [getattr(loss, "grad_fn", None) for loss in losses]
    seen: set[object] = set()
    found = 0
    while open_ and len(seen) < MOST:
        node = open_.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found += type(node).__name__ != _PARAMETER
        open_ += [before for before, _ in getattr(node, "next_functions", ())]
    return found
