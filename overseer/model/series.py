"""A task's steps in order, however many: single ones, then blocks that double in length."""

from __future__ import annotations

from operator import add

from .events import LOADING
from .noise import clipped, noise
from .steady import Verdict, steady

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .steps import Step

#: Rows that are kept at most; of more, two and two are put together.
ROWS = 4096


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


class Row(Totals):
    """Some steps one after the other.

    Attributes:
        number: Of the first of them.
        bounded: Their time, each step's kept near its neighbours' (see :mod:`.noise`).
    """

    __slots__ = ("bounded", "number")

    def __init__(self, number: int, n: int, items: float, parts: list[int], ns: int) -> None:
        super().__init__(n, items)
        self.number, self.parts = number, parts
        self.bounded = float(ns)


class Series:
    """Steps of one task, bounded however many there are.

    Attributes:
        steps: How many it has had.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._rows: list[Row] = []
        self._open: list[Row] = []
        self._block = 1
        self._verdict: tuple[int, Verdict] | None = None

    def add(self, step: Step, n: int, items: float, ns: int) -> None:
        """Take in the next step, or ``n`` that are not told apart, of ``ns``."""
        self.append(Row(step.number - n + 1, n, items, step.parts, ns))

    def append(self, row: Row) -> None:
        """Take in the next."""
        self.steps += row.n
        if self._block == 1:
            self._rows.append(row)
        else:
            self._open.append(row)
            if len(self._open) == self._block:
                self._bound(self._open)
                self._rows.append(_joined(self._open))
                self._open = []
        if len(self._rows) >= ROWS:
            if self._block == 1:
                self._bound(self._rows)
            pairs = zip(self._rows[::2], self._rows[1::2], strict=True)
            self._rows = [_joined([a, b]) for a, b in pairs]
            self._block *= 2

    def _bound(self, rows: list[Row]) -> None:
        """Single outliers say little of the steps around them: keep each near its neighbours."""
        values = [row.bounded / row.n for row in rows]
        for row, value in zip(rows, clipped(values, noise(values)), strict=True):
            row.bounded = value * row.n

    @property
    def rows(self) -> list[Row]:
        """All of them, also those that do not fill a block yet."""
        return [*self._rows, *self._open]

    def verdict(self, growth: float = 1.25) -> Verdict:
        """Whether and when the task became steady.

        Args:
            growth: How much longer the series must be for the search to be made anew; it takes
                some hundredths of a second.
        """
        if self._verdict is None or self.steps > self._verdict[0] * growth:
            rows = self.rows
            found = steady(
                [row.bounded / row.n / 1e9 for row in rows],
                [row.n for row in rows],
                [row.number for row in rows],
                seconds=sum(row.ns for row in rows) / 1e9,
            )
            self._verdict = self.steps, found
        return self._verdict[1]

    def totals(self, first: int = 0) -> Totals:
        """Sums over the steps from number ``first`` on."""
        made = Totals()
        for row in self.rows:
            if row.number >= first:
                made.n += row.n
                made.items += row.items
                made.parts = list(map(add, made.parts, row.parts))
        return made

    def course(self, first: int, most: int) -> tuple[int, list[float]]:
        """Steps a part, and mean seconds a step of each of ``most`` parts from ``first`` on."""
        rows = [row for row in self.rows if row.number >= first]
        length = -(-len(rows) // most) or 1
        parts = [rows[at : at + length] for at in range(0, len(rows), length)]
        n = sum(row.n for row in parts[0]) if parts else 0
        return n, [sum(r.ns for r in part) / sum(r.n for r in part) / 1e9 for part in parts]


def _joined(rows: list[Row]) -> Row:
    first = rows[0]
    made = Row(first.number, 0, 0.0, [0, 0, 0, 0, 0, 0], 0)
    made.bounded = 0.0
    for row in rows:
        made.n += row.n
        made.items += row.items
        made.parts = list(map(add, made.parts, row.parts))
        made.bounded += row.bounded
    return made
