"""Steps that are made of the same events as the one before them, counted together."""

from __future__ import annotations

import struct
from importlib import import_module

from .events import BETWEEN, LOADING, OTHER
from .steps import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: A step as the C function has it: start, end, parts, ns, items, loss, and the loss that was given.
STEP = struct.Struct("<10q3d")
WORDS = 13
START, END, PARTS, BETWEEN_PART, NS, ITEMS, LOSS, TOLD = 0, 1, 2, 2 + BETWEEN, 9, 10, 11, 12


def _in_c() -> Callable[..., bytes | None] | None:
    """Reads such steps; None where it was not compiled."""
    try:
        found: Any = import_module("overseer.recorder._alike").alike
    except ImportError:
        return None
    return found  # type: ignore[no-any-return]


read = _in_c()


class Alike(Step):
    """Several steps, one behind the other: their sums, as a step.

    Attributes:
        like: The step that they are like, and ``n`` how many they are.
        least: The least of their losses, ``loss`` being the last; ``least_told`` the least of
            those that were given, ``told`` being the last; NaN: none.
        raw: Their time as an open step has it.
        rows: Each of them, as :data:`STEP` has it.
    """

    __slots__ = ("least", "least_told", "like", "n", "raw", "rows")

    def __init__(self, like: Step, found: bytes, loads: bool) -> None:
        size = STEP.size
        self.like, self.n = like, len(found) // size - 2
        self.rows = memoryview(found)[size:-size]
        start, end, *parts, _, items, least, least_told = STEP.unpack_from(found, len(found) - size)
        super().__init__(start, like.loader)
        self.end, self.items = end, items
        self.parts, self.raw = parts[:BETWEEN], parts
        self.raw[LOADING if loads else OTHER] -= parts[BETWEEN]
        self.between = parts[BETWEEN] if loads else 0
        *_, self.loss, self.told = STEP.unpack_from(found, len(found) - 2 * size)
        self.least, self.least_told = least, least_told
        self.task, self.thread, self.pause = like.task, like.thread, 0
        self.backwards, self.waited, self.why = like.backwards * self.n, like.waited, like.why

    def column(self, of: int, last: int = 0) -> list[int]:
        """A figure of each of them, or of so many of the last ones."""
        first = max(0, self.n - last) * WORDS if last else 0
        return self.rows.cast("q")[first + of :: WORDS].tolist()

    @property
    def sizes(self) -> list[float]:
        """The items of each of them."""
        found: list[float] = self.rows.cast("d")[ITEMS::WORDS].tolist()  # type: ignore[assignment]
        return found

    def each(self) -> list[Step]:
        """The steps, as the fold makes them one by one."""
        made, like, number = [], self.like, self.number - self.n
        for row in STEP.iter_unpack(self.rows):
            number += 1
            step = Step(row[START], like.loader)
            step.end, step.parts = row[END], [*row[PARTS:BETWEEN_PART]]
            step.between = row[BETWEEN_PART] if self.between else 0
            step.items, step.loss, step.told = row[ITEMS], row[LOSS], row[TOLD]
            step.task, step.number, step.thread, step.pause = self.task, number, self.thread, 0
            step.took = {loader: [row[ITEMS]] for loader in like.took}
            step.calls, step.inputs, step.optimizer = like.calls, like.inputs, like.optimizer
            step.backwards, step.waited, step.why = like.backwards, like.waited, like.why
            made.append(step)
        return made


def same(found: bytes, step: Step, loads: bool) -> bool:
    """Whether the first step that was read is the one that the fold has made."""
    start, end, *parts, _, items, loss, _ = STEP.unpack_from(found)
    between = parts.pop() if loads else 0
    if (start, end, parts[:BETWEEN], between) != (step.start, step.end, step.parts, step.between):
        return False
    known = items == step.items or (items != items and step.items != step.items)
    return bool(known and loss == step.loss)


def each(steps: Iterable[Step]) -> list[Step]:
    """All steps, one by one."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Alike):
            found.extend(step.each())
        else:
            found.append(step)
    return found
