"""Counts consecutive steps with the same sequence of events together."""

from __future__ import annotations

import struct
from importlib import import_module

from .events import PART_BETWEEN, PART_LOADING, PART_OTHER
from .steps import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: A step in the C function's layout: start, end, parts, ns, items, loss, and the given loss.
STEP_LAYOUT = struct.Struct("<10q3d")
STEP_WORDS = 13
AT_START, AT_END, AT_PARTS, AT_BETWEEN = 0, 1, 2, 2 + PART_BETWEEN
AT_NS, AT_ITEMS, AT_LOSS, AT_GIVEN_LOSS = 9, 10, 11, 12


def _in_c() -> Callable[..., bytes | None] | None:
    """The C function that reads such steps; None if not compiled."""
    try:
        found: Any = import_module("overseer.recorder._alike").alike
    except ImportError:
        return None
    return found  # type: ignore[no-any-return]


read = _in_c()


class Alike(Step):
    """Several consecutive steps as one, with their sums.

    Attributes:
        like: The step before them; ``n`` is their number.
        least: The lowest of their losses, ``loss`` the last. ``least_told`` is the lowest of the
            given losses, ``told`` the last; NaN without any.
        raw: Their time by part, in the form of an open step.
        rows: Each step, in the layout of :data:`STEP_LAYOUT`.
    """

    __slots__ = ("least", "least_told", "like", "n", "raw", "rows")

    def __init__(self, like: Step, found: bytes, loads: bool) -> None:
        size = STEP_LAYOUT.size
        self.like, self.n = like, len(found) // size - 2
        self.rows = memoryview(found)[size:-size]
        sums = STEP_LAYOUT.unpack_from(found, len(found) - size)
        start, end, *parts, _, items, least, least_told = sums
        super().__init__(start, like.loader)
        self.end, self.items = end, items
        self.parts, self.raw = parts[:PART_BETWEEN], parts
        self.raw[PART_LOADING if loads else PART_OTHER] -= parts[PART_BETWEEN]
        self.between = parts[PART_BETWEEN] if loads else 0
        *_, self.loss, self.told = STEP_LAYOUT.unpack_from(found, len(found) - 2 * size)
        self.least, self.least_told = least, least_told
        self.task, self.thread, self.pause = like.task, like.thread, 0
        self.backwards, self.waited, self.why = like.backwards * self.n, like.waited, like.why

    def column(self, of: int, last: int = 0) -> list[int]:
        """A column of all rows, or of the ``last`` rows."""
        first = max(0, self.n - last) * STEP_WORDS if last else 0
        return self.rows.cast("q")[first + of :: STEP_WORDS].tolist()

    @property
    def sizes(self) -> list[float]:
        """The items of each step."""
        found: list[float] = self.rows.cast("d")[AT_ITEMS::STEP_WORDS].tolist()  # type: ignore[assignment]
        return found

    def each(self) -> list[Step]:
        """The single steps, as the fold would have made them."""
        made, like, number = [], self.like, self.number - self.n
        for row in STEP_LAYOUT.iter_unpack(self.rows):
            number += 1
            step = Step(row[AT_START], like.loader)
            step.end, step.parts = row[AT_END], [*row[AT_PARTS:AT_BETWEEN]]
            step.between = row[AT_BETWEEN] if self.between else 0
            step.items, step.loss, step.told = row[AT_ITEMS], row[AT_LOSS], row[AT_GIVEN_LOSS]
            step.task, step.number, step.thread, step.pause = self.task, number, self.thread, 0
            step.took = {loader: [row[AT_ITEMS]] for loader in like.took}
            step.calls, step.inputs, step.optimizer = like.calls, like.inputs, like.optimizer
            step.backwards, step.waited, step.why = like.backwards, like.waited, like.why
            made.append(step)
        return made


def same(found: bytes, step: Step, loads: bool) -> bool:
    """Whether the first row is the step that the fold has made."""
    start, end, *parts, _, items, loss, _ = STEP_LAYOUT.unpack_from(found)
    between = parts.pop() if loads else 0
    counted = step.start, step.end, step.parts, step.between
    if (start, end, parts[:PART_BETWEEN], between) != counted:
        return False
    known = items == step.items or (items != items and step.items != step.items)
    return bool(known and loss == step.loss)


def each(steps: Iterable[Step]) -> list[Step]:
    """Expand all steps into single ones."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Alike):
            found.extend(step.each())
        else:
            found.append(step)
    return found
