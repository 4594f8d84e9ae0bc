"""The time of every step of a task in fixed memory: the first thousands one by one, then blocks."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from .bounding import CHUNK, bounded_sum, bounded_sums, reach

#: Steps that are kept one by one: where warm-up happens.
HEAD = 4096
#: Blocks of equal length that hold the rest; when they are full, neighbours merge.
BLOCKS = 1024
#: Steps in a block at first.
SPAN = CHUNK


@dataclass(frozen=True)
class Totals:
    """Sums over the same steps; times in nanoseconds.

    Attributes:
        n: Steps.
        busy_ns: Their time without pauses.
        items: Their items, as far as known.
        counted_ns: The time of those whose items are known.
        loading_ns: Time waiting for batches, as far as seen.
        compute_ns: Time on batches, as far as seen.
    """

    n: int = 0
    busy_ns: int = 0
    items: int = 0
    counted_ns: int = 0
    loading_ns: int = 0
    compute_ns: int = 0


class Series:
    """The steps of one task; steps whose beginning was not seen are not in it."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self._columns = tuple(array("q") for _ in range(6))
        self._span = SPAN
        self._open = [0] * 6
        self._open_number = -1
        # Of the blocks alone: their time with outliers bounded.
        self._bounded = array("d")
        self._open_bounded = 0.0
        self._chunk: list[int] = []  # Steps of the open block that are not in that yet.
        self._within = 0.0

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def steps(self) -> int:
        """How many steps are in the series."""
        return sum(self._columns[0]) + self._open[0]

    def extend(
        self,
        numbers: Sequence[int],
        busy: Sequence[int],
        items: Sequence[int | None],
        loading: Sequence[int | None],
        compute: Sequence[int | None],
    ) -> None:
        """Take in steps, column by column."""
        at, n = min(HEAD - len(self.numbers), len(numbers)), len(numbers)
        if at > 0:
            self._single(numbers[:at], busy[:at], items[:at], loading[:at], compute[:at])
        at = max(0, at)
        if at < n and not self._within:
            self._within = reach(self._columns[1])
        while at < n:
            if not self._open[0] and n - at >= self._span:
                blocks = self._blocks(at, busy, items, loading, compute)
                if blocks:
                    held = len(blocks[0]) * self._span
                    bounded = bounded_sums(busy[at : at + held], self._span, self._within, SPAN)
                    self._whole(numbers[at :: self._span], blocks, bounded)
                    at += held
                    continue
            stop = min(n, at + self._span - self._open[0])
            if self._open_number < 0:
                self._open_number = numbers[at]
            self._add(busy[at:stop], items[at:stop], loading[at:stop], compute[at:stop])
            at = stop
            if self._open[0] == self._span:
                self._shut()

    def totals(self, first: int = 0) -> Totals:
        """Sums over the steps from number ``first`` on."""
        start = next((i for i, number in enumerate(self.numbers) if number >= first), None)
        sums = [sum(column[start:]) for column in self._columns] if start is not None else [0] * 6
        if self._open_number >= first:
            sums = [a + b for a, b in zip(sums, self._open, strict=True)]
        return Totals(*sums)

    def points(self) -> tuple[list[int], list[int], list[float]]:
        """Number of the first step, steps, and mean time in ns, of each point of the series."""
        numbers, counts = list(self.numbers), list(self._columns[0])
        means = [b / n for b, n in zip(self._columns[1], counts, strict=True)]
        if self._open[0]:
            numbers.append(self._open_number)
            counts.append(self._open[0])
            means.append(self._open[1] / self._open[0])
        return numbers, counts, means

    def bounded(self) -> list[float]:
        """The mean time in ns of each point, outliers in those of several steps bounded."""
        sums = [*self._columns[1][:HEAD], *self._bounded]
        if self._open[0]:
            rest = bounded_sum(self._chunk, self._within) if self._chunk else 0
            sums.append(self._open_bounded + rest)
        counts = [*self._columns[0], self._open[0]]
        return [total / n for total, n in zip(sums, counts, strict=False)]

    def parts(self, first: int, most: int) -> tuple[int, list[float]]:
        """The steps from number ``first`` on in parts of equal length, in order.

        Args:
            first: What comes before is left out.
            most: The largest number of parts.

        Returns:
            How many steps are in a part, and the mean time of one in ns, part by part; a last
            part that is not full is left out.
        """
        judged = [point for point in zip(*self.points(), strict=True) if point[0] >= first]
        length = -(-sum(count for _, count, _ in judged) // most)
        means, steps, busy = [], 0, 0.0
        for _, count, mean in judged:
            steps, busy = steps + count, busy + count * mean
            if steps >= length:
                means.append(busy / steps)
                steps, busy = 0, 0.0
        return length, means

    def _single(
        self,
        numbers: Sequence[int],
        busy: Sequence[int],
        items: Sequence[int | None],
        loading: Sequence[int | None],
        compute: Sequence[int | None],
    ) -> None:
        """Keep steps one by one."""
        counted = busy
        if None in items:
            counted = [ns if n is not None else 0 for n, ns in zip(items, busy, strict=True)]
        columns = ([1] * len(busy), busy, items, counted, loading, compute)
        self.numbers.extend(numbers)
        for own, new in zip(self._columns, columns, strict=True):
            own.extend(_known(new))

    def _blocks(
        self,
        at: int,
        busy: Sequence[int],
        items: Sequence[int | None],
        loading: Sequence[int | None],
        compute: Sequence[int | None],
    ) -> list[list[int]]:
        """The sums of whole blocks from ``at`` on, as many as fit; empty if something's unknown."""
        span = self._span
        n = min((len(busy) - at) // span, HEAD + BLOCKS - len(self.numbers))
        starts = range(at, at + n * span, span)

        def summed(column: Sequence[int | None]) -> list[int]:
            if column[at] is None and column.count(None) == len(column):
                return [0] * n
            return [sum(column[i : i + span]) for i in starts]  # type: ignore[arg-type]

        try:
            time = summed(busy)
            counts = summed(items)
            counted = [0] * n if items[at] is None else time
            return [[span] * n, time, counts, counted, summed(loading), summed(compute)]
        except TypeError:
            return []

    def _whole(self, numbers: Sequence[int], blocks: list[list[int]], bounded: list[float]) -> None:
        """Keep whole blocks."""
        self.numbers.extend(numbers[: len(bounded)])
        self._bounded.extend(bounded)
        for own, new in zip(self._columns, blocks, strict=True):
            own.extend(new)
        if len(self.numbers) == HEAD + BLOCKS:
            self._merge()

    def _add(
        self,
        busy: Sequence[int],
        items: Sequence[int | None],
        loading: Sequence[int | None],
        compute: Sequence[int | None],
    ) -> None:
        total = sum(busy)
        counted = total
        if None in items:
            pairs = [(n, ns) for n, ns in zip(items, busy, strict=True) if n is not None]
            items, counted = [n for n, _ in pairs], sum(ns for _, ns in pairs)
        sums = (len(busy), total, _sum(items), counted, _sum(loading), _sum(compute))
        self._open = [a + b for a, b in zip(self._open, sums, strict=True)]
        self._chunk.extend(busy)
        while len(self._chunk) >= SPAN:
            self._open_bounded += bounded_sum(self._chunk[:SPAN], self._within)
            del self._chunk[:SPAN]

    def _shut(self) -> None:
        self.numbers.append(self._open_number)
        for column, value in zip(self._columns, self._open, strict=True):
            column.append(value)
        self._bounded.append(self._open_bounded)
        self._open, self._open_bounded = [0] * 6, 0.0
        self._open_number = -1
        if len(self.numbers) == HEAD + BLOCKS:
            self._merge()

    def _merge(self) -> None:
        """Halve the number of blocks."""
        del self.numbers[HEAD + 1 :: 2]
        for column in self._columns:
            merged = [a + b for a, b in zip(column[HEAD::2], column[HEAD + 1 :: 2], strict=True)]
            column[HEAD:] = array("q", merged)
        pairs = zip(self._bounded[::2], self._bounded[1::2], strict=True)
        self._bounded = array("d", [a + b for a, b in pairs])
        self._span *= 2


def _known(values: Sequence[int | None]) -> Sequence[int]:
    """``values`` with 0 for what is not known."""
    unknown = values.count(None)
    if unknown == len(values):
        return [0] * unknown
    return [value or 0 for value in values] if unknown else values  # type: ignore[return-value]


def _sum(values: Sequence[int | None]) -> int:
    return sum(_known(values))
