"""Finds the rank that the others wait for, from the steps of all ranks.

A rank's *own time* in a step is the step without its waits for other ranks, on its own clock.
Collectives end together, so the rank with the longest own time arrives last, and waits least. No
clock is compared with another one's.

A rank's *lateness* in a step is its own time minus the median of the other ranks'. It is a
straggler if its median lateness is at least ``LEAST_SHARE`` of a step, exceeds its own variation
over the run and that of other ranks, and holds in most parts of the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean, median, stdev
from typing import NamedTuple

#: The parts of a step in which a rank can lose time of its own.
OWN_PARTS = ("loading", "forward", "backward", "optimizer", "other")
#: Steps that are examined: the latest ones that all ranks have.
MOST_STEPS = 2000
#: Fewer common steps tell nothing.
LEAST_STEPS = 20
#: Steps left out at the beginning: at most this many, and at most this share.
WARM_UP, WARM_UP_SHARE = 10, 0.1
#: The least lateness of a straggler, as a share of the own time of a step.
LEAST_SHARE = 0.05
#: Standard errors of a rank's lateness, and spreads of the other ranks', that it must exceed.
ERRORS, SPREADS = 4.0, 4.0
#: Blocks of consecutive steps, and the share of them in which a constant straggler is late.
BLOCKS, HOLDS = 20, 0.8
#: A single step is late by at least this share of a step, and this many spreads of its rank.
LATE_SHARE, LATE_SPREADS = 0.1, 6.0
#: The least number of late steps that can recur, and the share of equal gaps between them.
RECURS, REGULAR = 4, 0.7
#: The least share of the job's time that single late steps cost to be reported.
LEAST_COST = 0.01
#: A rank with this share of the late steps is the culprit; below, they rotate.
CULPRIT = 0.5

CONSTANT, RECURRING, ROTATING, ONE_OFF = "constant", "recurring", "rotating", "one-off"


class RankSteps(NamedTuple):
    """Steps of one rank.

    Attributes:
        rank: The rank.
        numbers: Numbers of the steps, ascending.
        parts: For each of ``OWN_PARTS`` and ``communication``, the ns of each step.
    """

    rank: int
    numbers: Sequence[int]
    parts: Mapping[str, Sequence[float]]


class Straggler(NamedTuple):
    """The rank that the others wait for.

    Attributes:
        kind: ``constant``, ``recurring``, ``one-off``, or ``rotating``: another rank each time.
        rank: The latest rank; None if they rotate.
        ranks: All constant stragglers, the latest first; otherwise ``rank`` alone, or none.
        part: The part of a step in which it loses most of the time.
        own: Its median time in that part, in seconds; of its late steps if it is not constant.
        others: The others' median time in that part, in seconds.
        late: Its median lateness in its late steps, in seconds.
        last: The share of steps in which it arrives last.
        steps: Number of late steps, of those examined.
        examined: Number of steps examined.
        period: Steps from one late step to the next, if it recurs.
        first: Number of the first late step; None if it is constant.
        gain: By how much the job would be faster without its lateness, as a share; None if the
            ranks do not wait for each other.
    """

    kind: str
    rank: int | None
    ranks: list[int]
    part: str | None
    own: float | None
    others: float | None
    late: float
    last: float
    steps: int
    examined: int
    period: int | None
    first: int | None
    gain: float | None

    def as_facts(self) -> dict[str, object]:
        """As in the facts of a job, without what is unknown."""
        return {key: value for key, value in self._asdict().items() if value not in (None, [])}


class _Aligned:
    """The common steps of all ranks, by rank and step.

    Attributes:
        ranks: The ranks.
        numbers: Numbers of the common steps.
        own: Own times, by rank.
        waits: Waits for other ranks, by rank.
    """

    def __init__(self, steps: Sequence[RankSteps]) -> None:
        self.ranks = [each.rank for each in steps]
        common = set(steps[0].numbers)
        for each in steps[1:]:
            common.intersection_update(each.numbers)
        numbers = sorted(common)
        skip = min(WARM_UP, int(len(numbers) * WARM_UP_SHARE))
        if numbers and numbers[0] > WARM_UP:  # The beginning is not among them.
            skip = 0
        self.numbers = numbers[skip:][-MOST_STEPS:]
        kept = set(self.numbers)
        self._places = [[at for at, n in enumerate(each.numbers) if n in kept] for each in steps]
        self._steps = steps
        self.waits = [self._column(index, "communication") for index in range(len(steps))]
        self.own = []
        for index in range(len(steps)):
            columns = [self._column(index, part) for part in OWN_PARTS]
            self.own.append([sum(values) for values in zip(*columns, strict=True)])

    def _column(self, index: int, part: str) -> list[float]:
        values = self._steps[index].parts[part]
        return [values[at] for at in self._places[index]]

    def parts(self, part: str) -> list[list[float]]:
        """The times of a part, by rank."""
        return [self._column(index, part) for index in range(len(self.ranks))]


def find_straggler(steps: Sequence[RankSteps]) -> Straggler | None:
    """The rank that the others wait for, if any.

    Args:
        steps: The steps of each rank; at least two ranks.
    """
    if len(steps) < 2:
        return None
    aligned = _Aligned(steps)
    if len(aligned.numbers) < LEAST_STEPS:
        return None
    late = _lateness(aligned.own)
    typical = median([median(own) for own in aligned.own])
    if typical <= 0:
        return None
    medians = [median(each) for each in late]
    constant = [
        index for index, each in enumerate(late) if _is_constant(index, each, medians, typical)
    ]
    if constant:
        constant.sort(key=lambda index: -medians[index])
        return _constant(aligned, late, constant)
    return _occasional(aligned, late, typical)


def _lateness(own: Sequence[Sequence[float]]) -> list[list[float]]:
    """Own times minus the median of the other ranks', by rank and step."""
    found: list[list[float]] = [[] for _ in own]
    n = len(own) - 1
    low, high = (n - 1) // 2, n // 2
    for times in zip(*own, strict=True):
        ordered = sorted(times)
        for index, time in enumerate(times):
            at = bisect_left(ordered, time)
            others = (
                ordered[low if low < at else low + 1] + ordered[high if high < at else high + 1]
            ) / 2
            found[index].append(time - others)
    return found


def _is_constant(
    index: int, late: Sequence[float], medians: Sequence[float], typical: float
) -> bool:
    """Whether a rank is late in most of the run, beyond its variation and that of others."""
    least = medians[index]
    if least < LEAST_SHARE * typical:
        return False
    blocks = _blocks(late)
    if least < ERRORS * stdev(blocks) / sqrt(len(blocks)):
        return False
    if sum(block >= least / 2 for block in blocks) < HOLDS * len(blocks):
        return False
    others = [each for at, each in enumerate(medians) if at != index]
    centre = median(others)
    spread = median([abs(each - centre) for each in others])
    return least - centre >= SPREADS * spread or len(others) < 3


def _blocks(values: Sequence[float]) -> list[float]:
    """Medians of consecutive blocks."""
    count = min(BLOCKS, len(values) // 4)
    ends = [len(values) * at // count for at in range(count + 1)]
    return [median(values[a:b]) for a, b in pairwise(ends)]


def _constant(aligned: _Aligned, late: Sequence[Sequence[float]], indices: list[int]) -> Straggler:
    index, every = indices[0], range(len(aligned.numbers))
    part, own, others = _part(aligned, index, every)
    return Straggler(
        CONSTANT, aligned.ranks[index], [aligned.ranks[each] for each in indices], part, own,
        others, median(late[index]) / 1e9, _last(aligned, index), len(every), len(every), None,
        None, _gain(aligned, indices, every),
    )  # fmt: skip


def _occasional(
    aligned: _Aligned, late: Sequence[Sequence[float]], typical: float
) -> Straggler | None:
    """Single late steps: of one rank at equal gaps, of changing ranks, or few."""
    culprits: dict[int, list[int]] = {}
    cost = 0.0
    limits = []
    for each in late:
        spread = median([abs(value) for value in each])
        limits.append(max(LATE_SHARE * typical, LATE_SPREADS * spread))
    for at in range(len(aligned.numbers)):
        index = max(range(len(late)), key=lambda rank: late[rank][at])
        if late[index][at] >= limits[index]:
            culprits.setdefault(index, []).append(at)
            cost += late[index][at]
    if not culprits or cost < LEAST_COST * typical * len(aligned.numbers):
        return None
    index, places = max(culprits.items(), key=lambda each: sum(late[each[0]][p] for p in each[1]))
    whole = sum(map(len, culprits.values()))
    if len(places) < CULPRIT * whole and whole >= RECURS:
        typical_late = median([late[rank][at] for rank, those in culprits.items() for at in those])
        return Straggler(
            ROTATING, None, [], None, None, None, typical_late / 1e9,
            max(map(len, culprits.values())) / whole, whole, len(aligned.numbers), None, None, None,
        )  # fmt: skip
    period = _period([aligned.numbers[at] for at in places])
    part, own, others = _part(aligned, index, places)
    rank = aligned.ranks[index]
    return Straggler(
        RECURRING if period else ONE_OFF, rank, [rank], part, own, others,
        median([late[index][at] for at in places]) / 1e9, _last(aligned, index), len(places),
        len(aligned.numbers), period, aligned.numbers[places[0]],
        _gain(aligned, [index], places),
    )  # fmt: skip


def _period(numbers: Sequence[int]) -> int | None:
    """The gap between the steps if most gaps are equal, or multiples of it."""
    if len(numbers) < RECURS:
        return None
    gaps = [b - a for a, b in pairwise(numbers)]
    gap, _ = Counter(gaps).most_common(1)[0]
    regular = sum(each % gap == 0 for each in gaps)
    return gap if gap > 1 and regular >= REGULAR * len(gaps) else None


def _part(aligned: _Aligned, index: int, places: Sequence[int]) -> tuple[str, float, float]:
    """The part in which a rank exceeds the others most; its time there and theirs, in seconds."""
    best = ("other", 0.0, 0.0)
    for part in OWN_PARTS:
        times = aligned.parts(part)
        own = median([times[index][at] for at in places])
        rest = [
            [each[at] for at in places] for at_rank, each in enumerate(times) if at_rank != index
        ]
        others = median([median(each) for each in rest])
        if own - others > best[1] - best[2]:
            best = (part, own, others)
    return best[0], best[1] / 1e9, best[2] / 1e9


def _last(aligned: _Aligned, index: int) -> float:
    """The share of steps in which a rank arrives last."""
    own = aligned.own
    times = [max(each) == each[index] for each in zip(*own, strict=True)]
    return fmean(times)


def _gain(aligned: _Aligned, indices: Sequence[int], places: Sequence[int]) -> float | None:
    """By how much the job would be faster if these ranks were like the others in these steps.

    Each step takes as long as the longest own time, plus the least wait of a rank, which is the
    communication itself.
    """
    if not any(map(any, aligned.waits)):
        return None
    rest = [at for at in range(len(aligned.ranks)) if at not in indices]
    if not rest:
        return None
    own, waits = aligned.own, aligned.waits
    floor = [min(each) for each in zip(*waits, strict=True)]
    whole = fmean(
        max(each) + wait for each, wait in zip(zip(*own, strict=True), floor, strict=True)
    )
    saved = sum(
        max(0.0, max(each[at] for each in own) - max(own[other][at] for other in rest))
        for at in places
    ) / len(aligned.numbers)
    return saved / (whole - saved) if whole > saved else None
