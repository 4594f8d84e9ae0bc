"""A task's steps in order, however many: single ones, then blocks that double in length."""

from __future__ import annotations

from bisect import bisect_left

from .events import LOADING, OTHER
from .noise import clipped, noise
from .steady import Verdict, steady

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from .steps import Step

#: So many single steps or blocks are kept at most; of more, two and two are put together.
ROWS: Final = 4096
#: Of so few none is farther from the others than three times what their differences tell.
FEW: Final = 3


class Totals:
    """Sums over steps: how many, their parts in ns, their items; NaN: unknown."""

    __slots__ = ("items", "n", "parts")

    def __init__(self, n: int = 0, items: float = 0.0) -> None:
        self.n, self.items = n, items
        self.parts = [0, 0, 0, 0, 0, 0]

    @property
    def ns(self) -> int:
        """Their time, without pauses."""
        return sum(self.parts)

    @property
    def loading(self) -> int:
        """Their time waiting for batches."""
        return self.parts[LOADING]


class Columns:
    """Stretches of steps one behind the other, each figure of all of them in a list.

    Attributes:
        numbers: Of the first step of each stretch, and ``n`` how many there are in it.
        items: Of them, and ``ns`` their time; ``parts``: a list for each part of that.
        bounded: Their time, each step's kept near its neighbours' (see :mod:`.noise`).
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
        """Take in some of others."""
        self.numbers += other.numbers[at:end]
        self.n += other.n[at:end]
        self.items += other.items[at:end]
        self.ns += other.ns[at:end]
        self.bounded += other.bounded[at:end]
        for column, more in zip(self.parts, other.parts, strict=True):
            column += more[at:end]

    def bound(self, at: int, end: int) -> None:
        """Single outliers say little of the steps around them: keep each near its neighbours."""
        if end - at <= FEW:
            return
        bounded, n = self.bounded, self.n
        values: list[float] = []
        for i in range(at, end):
            values.append(bounded[i] / n[i])
        values = clipped(values, noise(values))
        for i in range(at, end):
            bounded[i] = values[i - at] * n[i]

    def join(self, at: int, end: int, into: Columns) -> None:
        """Put some together, as one of ``into``."""
        n, ns, items, bounded = self.n, self.ns, self.items, self.bounded
        steps, took, amount, near = 0, 0, 0.0, 0.0
        for i in range(at, end):  # Loops, for these are compiled.
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


class Series:
    """Steps of one task, bounded however many there are.

    Attributes:
        steps: How many it has had.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._kept, self._open = _none(), _none()
        self._block = 1
        self._verdict: tuple[int, Verdict] | None = None

    def add(self, step: Step, n: int, items: float, ns: int) -> None:
        """Take in the next step, or ``n`` that are not told apart, of ``ns``."""
        parts = [[part] for part in step.parts[: OTHER + 1]]
        self.extend(Columns([step.number - n + 1], [n], [items], [ns], parts))

    def extend(self, steps: Columns) -> None:
        """Take in the next ones."""
        self.steps += sum(steps.n)
        at, behind = 0, len(steps.n)
        while at < behind:
            begun = len(self._open.n)
            if self._block == 1:
                end = min(behind, at + ROWS - len(self._kept.n))
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
            if len(self._kept.n) >= ROWS:
                self._double()

    def _join(self, steps: Columns, at: int, end: int) -> None:
        steps.bound(at, end)
        steps.join(at, end, self._kept)

    def _double(self) -> None:
        """Put two and two together."""
        before, self._kept = self._kept, _none()
        if self._block == 1:
            before.bound(0, ROWS)
        for at in range(0, ROWS, 2):
            before.join(at, at + 2, self._kept)
        self._block *= 2

    def since(self, first: int) -> Columns:
        """What is kept of the steps from number ``first`` on."""
        made = _none()
        for columns in self._kept, self._open:
            made.take(columns, bisect_left(columns.numbers, first), len(columns.n))
        return made

    def verdict(self, growth: float = 1.25) -> Verdict:
        """Whether and when the task became steady.

        Args:
            growth: How much longer the series must be for the search to be made anew; it takes
                some hundredths of a second.
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

    def course(self, first: int, most: int) -> tuple[int, list[float]]:
        """Steps a part, and mean seconds a step of each of ``most`` parts from ``first`` on."""
        every = self.since(first)
        length = -(-len(every.n) // most) or 1
        ends = range(0, len(every.n), length)
        n = [sum(every.n[at : at + length]) for at in ends]
        ns = [sum(every.ns[at : at + length]) for at in ends]
        return n[0] if n else 0, [a / b / 1e9 for a, b in zip(ns, n, strict=True)]
