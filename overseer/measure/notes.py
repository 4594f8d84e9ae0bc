"""What a script's threads have noted and nobody has worked off: one flat list, no object a note.

A tuple for each note would cost as much again, and half of that in the garbage collector, which
counts tuples and does not count numbers. A note is :data:`WIDTH` values in a row: what happened,
host time, thread, items (where a pair begins: the coroutine that is in it), id of the
pair, device mark.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

#: Values of a note.
WIDTH = 6
#: Notes that wait before the thread that notes one more works them off itself.
BATCH = 4096
#: The values of so many.
FULL = BATCH * WIDTH
WHAT, NOW, THREAD, ITEMS, IDENT, MARK = range(WIDTH)
#: Rounds of a loop looked at together, at first.
FEW = 256
#: The kind of a boundary, the task, and the name of the pair or the loader.
What = tuple[int, str, Hashable]
#: One note.
Note = tuple[What, int, int, "int | None", Hashable, Any]


class Notes:
    """Notes in order: any thread adds to ``fresh``, one at a time takes from the front.

    Attributes:
        fresh: What has come since :meth:`take`; extended by a whole note at a time.
        taken: What was taken over by whoever works it off.
        at: Where in ``taken`` the first note stands that is not worked off.
        done: How many have been worked off.
        reach: How far ahead is looked for what goes as before, in rounds of a loop.
    """

    __slots__ = ("at", "done", "fresh", "reach", "taken")

    def __init__(self) -> None:
        self.fresh: list[Any] = []
        self.taken: list[Any] = []
        self.at = 0
        self.done = 0
        self.reach = FEW

    def __len__(self) -> int:
        """How many wait."""
        return (len(self.taken) - self.at + len(self.fresh)) // WIDTH

    @property
    def ready(self) -> int:
        """How many of those taken over wait."""
        return (len(self.taken) - self.at) // WIDTH

    @property
    def kind(self) -> int | None:
        """The kind of the first of those; None without."""
        return self.taken[self.at + WHAT][0] if self.ready else None

    def take(self) -> None:
        """Take over what has come."""
        fresh, n = self.fresh, len(self.fresh)
        left = self.taken[self.at :]
        self.taken = left + fresh[:n] if left else fresh[:n]
        self.at = 0
        del fresh[:n]  # Another thread may have added more meanwhile.

    def first(self) -> Note:
        """The first that waits, of those taken over."""
        note: Note = tuple(self.taken[self.at : self.at + WIDTH])
        return note

    def pass_over(self, n: int) -> None:
        """So many have been worked off."""
        self.at += n * WIDTH
        self.done += n
