"""Stores a task's steps in bounded space: single ones, then blocks that double in length."""

from __future__ import annotations

from bisect import bisect_left

from .events import PART_LOADING, PART_OTHER
from .noise import clipped, noise
from .steady import SteadyState, steady

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from .steps import Step

#: Maximum count of blocks (first: single steps); at the maximum they are joined in pairs.
MAX_BLOCKS: Final = 4096
#: Up to this count of values no clipping is possible.
MIN_CLIPPED: Final = 3


class Totals:
    """Sums over steps: their count, parts in ns, and items; NaN if unknown."""

    __slots__ = ("items", "n", "parts")

    def __init__(self, n: int = 0, items: float = 0.0) -> None:
        self.n, self.items = n, items
        self.parts = [0, 0, 0, 0, 0, 0]

    @property
    def ns(self) -> int:
        """Their time without pauses, ns."""
        return sum(self.parts)

    @property
    def loading(self) -> int:
        """Their time waiting for batches, ns."""
        return self.parts[PART_LOADING]


class Columns:
    """Consecutive blocks of steps, by column.

    Attributes:
        numbers: The number of each block's first step; ``n``: the count of its steps.
        items: Items of each block; ``ns``: its time; ``parts``: a list for each part of the time.
        bounded: Time of each block, with outliers clipped (see :mod:`.noise`).
    """

    __slots__ = ("bounded", "items", "n", "ns", "numbers", "parts")

    def __init__(
        self,
        numbers: list[int],
        n: list[int],
        items: list[float],
        ns: list[int],
        parts: list[list[int]],
    ) -> None:
        self.numbers, self.n, self.items, self.ns, self.parts = numbers, n, items, ns, parts
        self.bounded = [float(one) for one in ns]

    def take(self, other: Columns, at: int, end: int) -> None:
        """Append blocks ``at`` to ``end`` of ``other``."""
        self.numbers += other.numbers[at:end]
        self.n += other.n[at:end]
        self.items += other.items[at:end]
        self.ns += other.ns[at:end]
        self.bounded += other.bounded[at:end]
        for column, more in zip(self.parts, other.parts, strict=True):
            column += more[at:end]

    def bound(self, at: int, end: int) -> None:
        """Clip outliers among blocks ``at`` to ``end``."""
        if end - at <= MIN_CLIPPED:
            return
        bounded, n = self.bounded, self.n
        values: list[float] = []
        for i in range(at, end):
            values.append(bounded[i] / n[i])
        values = clipped(values, noise(values))
        for i in range(at, end):
            bounded[i] = values[i - at] * n[i]

    def join(self, at: int, end: int, into: Columns) -> None:
        """Append the sum of blocks ``at`` to ``end`` to ``into``, as one block."""
        n, ns, items, bounded = self.n, self.ns, self.items, self.bounded
        steps, took, amount, near = 0, 0, 0.0, 0.0
        for i in range(at, end):  # A loop, as this is compiled.
            steps += n[i]
            took += ns[i]
            amount += items[i]
            near += bounded[i]
        into.numbers.append(self.numbers[at])
        into.n.append(steps)
        into.ns.append(took)
        into.items.append(amount)
        into.bounded.append(near)
        parts, made = self.parts, into.parts
        for part in range(len(parts)):
            column, took = parts[part], 0
            for i in range(at, end):
                took += column[i]
            made[part].append(took)


def _none() -> Columns:
    return Columns([], [], [], [], [[], [], [], [], [], []])


class StepSeries:
    """The steps of one task, in bounded space.

    Attributes:
        steps: The number of steps.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._kept, self._open = _none(), _none()
        self._block = 1
        self._verdict: tuple[int, SteadyState] | None = None

    def add(self, step: Step, n: int, items: float, ns: int) -> None:
        """Add the next step, or ``n`` as one, of ``ns`` nanoseconds."""
        parts = [[part] for part in step.parts[: PART_OTHER + 1]]
        self.extend(Columns([step.number - n + 1], [n], [items], [ns], parts))

    def extend(self, steps: Columns) -> None:
        """Add the next steps."""
        self.steps += sum(steps.n)
        at, behind = 0, len(steps.n)
        while at < behind:
            begun = len(self._open.n)
            if self._block == 1:
                end = min(behind, at + MAX_BLOCKS - len(self._kept.n))
                self._kept.take(steps, at, end)
            elif begun or at + self._block > behind:
                end = min(behind, at + self._block - begun)
                self._open.take(steps, at, end)
                if len(self._open.n) == self._block:
                    self._join(self._open, 0, self._block)
                    self._open = _none()
            else:
                end = at + self._block
                self._join(steps, at, end)
            at = end
            if len(self._kept.n) >= MAX_BLOCKS:
                self._double()

    def _join(self, steps: Columns, at: int, end: int) -> None:
        steps.bound(at, end)
        steps.join(at, end, self._kept)

    def _double(self) -> None:
        """Join blocks in pairs."""
        before, self._kept = self._kept, _none()
        if self._block == 1:
            before.bound(0, MAX_BLOCKS)
        for at in range(0, MAX_BLOCKS, 2):
            before.join(at, at + 2, self._kept)
        self._block *= 2

    def since(self, first: int) -> Columns:
        """The blocks from step number ``first`` on."""
        made = _none()
        for columns in self._kept, self._open:
            made.take(columns, bisect_left(columns.numbers, first), len(columns.n))
        return made

    def verdict(self, growth: float = 1.25) -> SteadyState:
        """Whether the task became steady, and from which step.

        Args:
            growth: Search again if the series has grown by this factor; a search takes some
                hundredths of a second.
        """
        if self._verdict is None or self.steps > self._verdict[0] * growth:
            every = self.since(0)
            means = [ns / n / 1e9 for ns, n in zip(every.bounded, every.n, strict=True)]
            found = steady(means, every.n, every.numbers, seconds=sum(every.ns) / 1e9)
            self._verdict = self.steps, found
        return self._verdict[1]

    def totals(self, first: int = 0) -> Totals:
        """Sums over the steps from number ``first`` on."""
        every = self.since(first)
        made = Totals(sum(every.n))
        for items in every.items:
            made.items += items
        made.parts = [sum(column) for column in every.parts]
        return made
