"""Steps in columns, which Python sums twenty times faster than it walks steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple, overload

from .step import BY_LENGTH, Step

Known = Sequence[int | None]
_TASK = itemgetter(0)


class _Fields(NamedTuple):
    task: Sequence[str]
    number: Sequence[int]
    items: Known
    units: Sequence[str]
    start_ns: Sequence[int]
    ready_ns: Known
    end_ns: Sequence[int]
    loading_ns: Known
    compute_ns: Known
    busy_ns: Known
    pause_ns: Sequence[int]
    thread: Sequence[int]
    estimated: Sequence[int]


class Columns(_Fields):
    """Steps of one task, column by column; see :class:`.step.Step`."""

    @property
    def rows(self) -> int:
        """How many steps there are."""
        return len(self.task)

    @cached_property
    def sums(self) -> Sums:
        """The sums of the steps, added up once for all who ask."""
        return _sums(self)

    def part(self, begin: int, end: int) -> Columns:
        """The steps from ``begin`` to before ``end``."""
        if begin == 0 and end >= len(self.task):
            return self
        return Columns._make(column[begin:end] for column in self)

    def steps(self) -> Iterator[Step]:
        """The steps one by one."""
        return map(Step._make, zip(*self, strict=True))

    @classmethod
    def of(cls, steps: Iterable[tuple[Any, ...]]) -> Columns:
        """Steps of one task, of which there is at least one."""
        return cls._make(zip(*steps, strict=True))


class Steps:
    """Steps in the order in which they were judged; those that come in columns stay in columns.

    Args:
        steps: The first of them.
    """

    __slots__ = ("_by_task", "_parts")

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._parts: list[list[Step] | Columns] = []
        self._by_task: tuple[Columns, ...] | None = None
        self.extend(list(steps))

    def __len__(self) -> int:
        return sum(part.rows if isinstance(part, Columns) else len(part) for part in self._parts)

    def __iter__(self) -> Iterator[Step]:
        for part in self._parts:
            yield from part.steps() if isinstance(part, Columns) else part

    def extend(self, steps: list[Step]) -> None:
        """Add steps one by one."""
        if steps:
            if not self._parts or isinstance(self._parts[-1], Columns):
                self._parts.append([])
            self._parts[-1] += steps  # type: ignore[operator]

    def add(self, columns: Columns) -> None:
        """Add steps in columns, which are lists; they may be added to, and are not to be used.

        The numbers may be a range.
        """
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Columns) and last.task[0] == columns.task[0]:
            numbers = (last.number, columns.number)
            joined = _joined(numbers)
            for own, new in zip(last, columns, strict=True):
                if own is not last.number:
                    own += new  # type: ignore[operator]
            self._parts[-1] = last._replace(number=joined)
        else:
            self._parts.append(columns)

    def by_task(self) -> tuple[Columns, ...]:
        """The steps of each task, in order; no more may be added then."""
        if self._by_task is None:
            self._by_task = tuple(_by_task(self._parts))
        return self._by_task


def _by_task(parts: Iterable[list[Step] | Columns]) -> Iterator[Columns]:
    found: dict[str, list[Columns]] = {}
    for part in parts:
        for columns in (part,) if isinstance(part, Columns) else _columns(part):
            found.setdefault(columns.task[0], []).append(columns)
    for own in found.values():
        yield own[0] if len(own) == 1 else Columns._make(map(_joined, zip(*own, strict=True)))


def _columns(steps: list[Step]) -> Iterator[Columns]:
    """The steps of each task."""
    tasks = dict.fromkeys(map(_TASK, steps))
    for task in tasks:
        yield Columns.of(steps if len(tasks) == 1 else [s for s in steps if s[0] == task])


def _joined(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    begin, end = parts[0], parts[-1]
    if all(type(part) is range for part in parts) and _follow(parts):
        return range(begin[0], end[-1] + 1)
    joined: list[int] = []
    for part in parts:
        joined += part
    return joined


def _follow(ranges: Sequence[Sequence[int]]) -> bool:
    """Whether each begins where the one before ends."""
    return all(one[-1] + 1 == other[0] for one, other in pairwise(ranges))


class Rows(Sequence[tuple[Any, ...]]):
    """Columns as rows, of which each is put together when it is asked for.

    Args:
        columns: All of the same length.
    """

    def __init__(self, *columns: Sequence[Any]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, at: int) -> tuple[Any, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> list[tuple[Any, ...]]: ...

    def __getitem__(self, at: int | slice) -> tuple[Any, ...] | list[tuple[Any, ...]]:
        picked = tuple(column[at] for column in self._columns)
        return list(zip(*picked, strict=True)) if isinstance(at, slice) else picked


class Sums(NamedTuple):
    """Sums over the same steps; times in nanoseconds.

    Attributes:
        steps: How many.
        sized: Those whose items are known.
        items: Their items.
        timed: Those whose beginning was seen.
        busy_ns: The time of those, without pauses.
        counted: Those whose items are known besides.
        counted_items: The items of the counted ones.
        counted_ns: The time of the counted ones.
        loading_ns: Time waiting for batches, of the split steps.
        compute_ns: Time on batches, of the split steps.
        split: Timed steps whose loading and compute were seen.
        pause_ns: Pauses.
        pauses: Steps that had one.
        unexplained: Those of them of which nothing but their length tells.
    """

    steps: int = 0
    sized: int = 0
    items: int = 0
    timed: int = 0
    busy_ns: int = 0
    counted: int = 0
    counted_items: int = 0
    counted_ns: int = 0
    loading_ns: int = 0
    compute_ns: int = 0
    split: int = 0
    pause_ns: int = 0
    pauses: int = 0
    unexplained: int = 0

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        return Sums(*map(int.__add__, self, other))


def _sums(columns: Columns) -> Sums:
    n = len(columns.task)
    pauses = n - columns.pause_ns.count(0)
    pause = sum(columns.pause_ns) if pauses else 0
    guessed = columns.estimated.count(BY_LENGTH) if any(columns.estimated) else 0
    loading, compute = columns.loading_ns, columns.compute_ns
    try:  # To look for what is not known would cost more than the sums do.
        busy, items = sum(columns.busy_ns), sum(columns.items)  # type: ignore[arg-type]
        if nothing_known(loading) or nothing_known(compute):
            return Sums(n, n, items, n, busy, n, items, busy, 0, 0, 0, pause, pauses, guessed)
        waited, worked = sum(loading), sum(compute)  # type: ignore[arg-type]
    except TypeError:
        return _some(columns, pause, pauses, guessed)
    return Sums(n, n, items, n, busy, n, items, busy, waited, worked, n, pause, pauses, guessed)


def nothing_known(column: Known) -> bool:
    """Whether no value of a column is known."""
    return column[0] is None and column.count(None) == len(column)


def _some(columns: Columns, pause: int, pauses: int, guessed: int) -> Sums:
    """Sums where some values are not known."""
    rows = list(
        zip(columns.busy_ns, columns.items, columns.loading_ns, columns.compute_ns, strict=True)
    )
    sized = [i for _, i, _, _ in rows if i is not None]
    timed = [b for b, _, _, _ in rows if b is not None]
    counted = [(b, i) for b, i, _, _ in rows if b is not None and i is not None]
    split = [(x, c) for b, _, x, c in rows if b is not None and x is not None and c is not None]
    return Sums(
        len(rows), len(sized), sum(sized), len(timed), sum(timed),
        len(counted), sum(i for _, i in counted), sum(b for b, _ in counted),
        sum(x for x, _ in split), sum(c for _, c in split), len(split), pause, pauses,
        guessed,
    )  # fmt: skip
