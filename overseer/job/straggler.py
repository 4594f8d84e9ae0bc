"""Finds the rank that the others wait for, from the steps of all ranks.

A rank's *own time* in a step is the step without its waits for other ranks, on its own clock.
Collectives end together, so the rank with the longest own time arrives last, and waits least. No
clock is compared with another one's. A rank's *lateness* in a step is its own time minus the median
of the other ranks'.

- A *constant* straggler is late by at least 5 % of a step over the run, or 10 % over a quarter of
  it or more, and beyond what its steps and the ranks vary.
- A *recurring* one has late steps at a period, or three times as often as the other ranks.
- A *one-off* is late by the time of five steps or more, and three times as late as any other rank.
- Other late steps are *rotating*: no rank is a straggler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import exp, lgamma, log, log1p, sqrt
from statistics import fmean, median, stdev
from typing import NamedTuple

#: The parts of a step in which a rank can lose time of its own.
PAUSED = "pause"
OWN_PARTS = ("loading", "forward", "backward", "optimizer", "other", PAUSED)
#: Steps that are examined: of each rank, and at most of all ranks; but at least so many of each.
OF_EACH, OF_ALL, AT_LEAST = 10_000, 400_000, 400
#: Fewer common steps tell nothing.
LEAST_STEPS = 20
#: Ranks with a smaller share of the steps that most ranks have are left out.
LEAST_COMMON = 0.25
#: Steps left out at the beginning: at most this many, and at most this share.
WARM_UP, WARM_UP_SHARE = 10, 0.1
#: The least lateness of a constant straggler, as a share of the own time of a step; twice that in a
#: part of the run.
LEAST_SHARE = 0.05
#: Spreads of the other ranks' lateness that a constant straggler's must exceed.
SPREADS = 4.0
#: Number of blocks of consecutive steps, and the least steps of one.
BLOCKS, BLOCK_STEPS = 20, 10
#: The least share of the blocks that a constant straggler is late for, and of late ones in these.
SLOW_STRETCH, HOLDS = 0.25, 0.8
#: A single step is late by at least this share of a step, and this many spreads of its rank.
LATE_SHARE, LATE_SPREADS = 0.1, 6.0
#: The least number of late steps that recur, and the share of a period's steps that are late.
RECURS, REGULAR = 4, 0.6
#: Times as often as the other ranks that one is late if it recurs without a period; and times as
#: late as the others that a one-off is.
MORE = 3.0
#: The chance that no straggler is taken for one, as far as it can be computed.
CHANCE = 1e-3
#: Ranks that are searched for periods, and gaps between late steps that are tried.
PERIODS_SEARCHED = 20
#: The least share of the job's time that single late steps cost to be reported.
LEAST_COST = 0.01
#: Steps' time by which a one-off is late.
HUGE = 5.0
#: A rank with more than this share of what recurs is the culprit; otherwise late steps rotate.
CULPRIT = 0.5
#: A standard deviation in median absolute deviations.
_DEVIATION = 1.4826

CONSTANT, RECURRING, ROTATING, ONE_OFF = "constant", "recurring", "rotating", "one-off"


class RankSteps(NamedTuple):
    """Steps of one rank.

    Attributes:
        rank: The rank.
        numbers: Numbers of the steps, ascending.
        parts: For each of ``OWN_PARTS`` and ``communication``, the ns of each step. A pause between
            two steps is of the second one.
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
        own: Its median time in that part in its late steps, in seconds.
        others: The others' median time in that part, in seconds.
        late: Its median lateness in its late steps, in seconds.
        last: The share of its late steps in which it arrives last; if they rotate, the greatest
            share of late steps that a rank has.
        steps: Number of late steps, of those examined.
        examined: Number of steps examined.
        period: Steps from one late step to the next, if it recurs regularly.
        first: Number of the first late step; None if it is late all the time.
        gain: By how much the job would be faster without its lateness, as a share; None if the
            ranks do not wait for each other, or if they rotate.
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


class RankLateness(NamedTuple):
    """How often the others wait for a rank, and how long.

    Attributes:
        rank: The rank.
        last: The share of the steps examined in which its own time is the longest.
        late: Its median lateness in these steps, in seconds; None if there are none.
    """

    rank: int
    last: float
    late: float | None


class Examined(NamedTuple):
    """What the steps of all ranks tell.

    Attributes:
        straggler: The rank that the others wait for, if any.
        together: The share of time in which all ranks wait at once: the communication itself. None
            if no rank waits.
        each: For each rank, how late it is; empty with too few steps.
    """

    straggler: Straggler | None = None
    together: float | None = None
    each: Sequence[RankLateness] = ()


class _Aligned:
    """The common steps of all ranks, by rank and step.

    Attributes:
        ranks: The ranks.
        numbers: Numbers of the common steps.
        own: Own times, by rank.
        waited: Whether a rank waits.
        longest, together: The longest own time and the shortest wait in each step: a step takes as
            long as both, and the latter is the communication itself.
        late: Lateness, by rank.
        typical: The own time of a typical step.
    """

    def __init__(self, steps: Sequence[RankSteps]) -> None:
        self._steps = steps = _with_most(steps)
        self.ranks = [each.rank for each in steps]
        common = set(steps[0].numbers)
        for each in steps[1:]:
            common.intersection_update(each.numbers)
        numbers = sorted(common)
        skip = min(WARM_UP, int(len(numbers) * WARM_UP_SHARE))
        if numbers and numbers[0] > WARM_UP:  # The beginning is not among them.
            skip = 0
        self.numbers = numbers[skip:][-most_steps(len(steps)) :]
        kept = set(self.numbers)
        self._places = [[at for at, n in enumerate(each.numbers) if n in kept] for each in steps]
        waits = self.parts("communication")
        self.waited = any(map(any, waits))
        self.together = [min(each) for each in zip(*waits, strict=True)]
        self.own = [[0.0] * len(self.numbers) for _ in steps]
        for part in OWN_PARTS:
            columns = zip(self.own, self.parts(part), strict=True)
            self.own = [[a + b for a, b in zip(*each, strict=True)] for each in columns]
        self.longest = [max(each) for each in zip(*self.own, strict=True)]
        self.late = _lateness(self.own)
        self.typical = median([median(own) for own in self.own]) if self.numbers else 0.0

    def parts(self, part: str) -> list[list[float]]:
        """The times of a part, by rank."""
        columns = [each.parts[part] for each in self._steps]
        return [
            [*values[places[0] : places[-1] + 1]]
            if _dense(places)
            else [values[at] for at in places]
            for values, places in zip(columns, self._places, strict=True)
        ]


def _dense(places: Sequence[int]) -> bool:
    return bool(places) and places[-1] - places[0] == len(places) - 1


def most_steps(ranks: int) -> int:
    """The number of steps of each of so many ranks that are examined."""
    return max(min(OF_EACH, OF_ALL // max(ranks, 1)), AT_LEAST)


def _with_most(steps: Sequence[RankSteps]) -> list[RankSteps]:
    """The ranks that have enough of the steps that most ranks have."""
    having = Counter(number for each in steps for number in each.numbers)
    most = {number for number, n in having.items() if 2 * n > len(steps)}
    enough = [
        each for each in steps if len(most.intersection(each.numbers)) >= LEAST_COMMON * len(most)
    ]
    return enough or [*steps]


def _lateness(own: Sequence[Sequence[float]]) -> list[list[float]]:
    """Own times minus the median of the other ranks', by rank and step."""
    low, high = (len(own) - 2) // 2, (len(own) - 1) // 2
    found = []
    for times in zip(*own, strict=True):
        ordered = sorted(times)
        # Without a rank, the middle is one place later for those at or before it.
        before, after = ordered[low] + ordered[high], ordered[low + 1] + ordered[high + 1]
        between = ordered[low] + ordered[high + 1]
        limits = ordered[low], ordered[high]
        found.append([
            time - (after if time <= limits[0] else between if time <= limits[1] else before) / 2
            for time in times
        ])  # fmt: skip
    return [[*each] for each in zip(*found, strict=True)]


class _Candidate(NamedTuple):
    """A rank that may be a straggler: ``indices`` of ranks, and ``places`` of late steps."""

    kind: str
    indices: list[int]
    places: Sequence[int]
    late: float
    period: int | None = None

    @property
    def cost(self) -> float:
        """Time that its late steps cost."""
        return self.late * len(self.places)


def find_straggler(steps: Sequence[RankSteps]) -> Straggler | None:
    """The rank that the others wait for, if any.

    Args:
        steps: The steps of each rank; at least two ranks.
    """
    return examine(steps).straggler


def examine(steps: Sequence[RankSteps]) -> Examined:
    """The rank that the others wait for, and what all ranks' steps tell of their waits.

    Args:
        steps: The steps of each rank.
    """
    if len(steps) < 2:
        return Examined()
    aligned = _Aligned(steps)
    if len(aligned.ranks) < 2 or len(aligned.numbers) < LEAST_STEPS or aligned.typical <= 0:
        return Examined()
    constant = _constant(aligned)
    late = _late_places(aligned)
    found = [*constant, *_recurring(aligned, late)]
    chosen = max(found, key=lambda each: each.cost) if found else _rare(aligned, late)
    if chosen is not None and chosen.kind == CONSTANT:  # Others may be constantly late, too.
        ranked = sorted(constant, key=lambda each: -each.late)
        chosen = ranked[0]._replace(indices=[each.indices[0] for each in ranked])
    together = sum(aligned.together) / (sum(aligned.together) + sum(aligned.longest))
    return Examined(
        _finding(aligned, chosen, late) if chosen is not None else None,
        together if aligned.waited else None,
        [*_each(aligned)],
    )


def _each(aligned: _Aligned) -> Iterator[RankLateness]:
    for rank, own, late in zip(aligned.ranks, aligned.own, aligned.late, strict=True):
        columns = zip(own, aligned.longest, late, strict=True)
        then = [behind for time, longest, behind in columns if time == longest]
        share = len(then) / len(aligned.numbers)
        yield RankLateness(rank, share, median(then) / 1e9 if then else None)


# Constant


def _constant(aligned: _Aligned) -> list[_Candidate]:
    """The ranks that are late over a large stretch of the run."""
    count = max(2, min(BLOCKS, len(aligned.numbers) // BLOCK_STEPS))
    ends = [len(aligned.numbers) * at // count for at in range(count + 1)]
    blocks = [[median(late[a:b]) for a, b in pairwise(ends)] for late in aligned.late]
    medians = [[median(late)] for late in aligned.late]
    ranks, found = len(medians), list[_Candidate]()
    for index, late in enumerate(aligned.late):
        least = LEAST_SHARE * aligned.typical
        a, b = _late_blocks(blocks[index], least)
        for begin, end, share, levels in (0, count, 1, medians), (a, b, 2, blocks):
            stretch = range(ends[begin], ends[end])
            values = late[stretch.start : stretch.stop]
            if (
                end - begin >= max(2, SLOW_STRETCH * count)
                and _exceeds(values, blocks[index][begin:end], share * least, ranks)
                and (centre := median(values)) >= _limit(levels, index)
            ):
                found.append(_Candidate(CONSTANT, [index], stretch, centre))
                break
    return found


def _late_blocks(blocks: Sequence[float], least: float) -> tuple[int, int]:
    """The begin and end of the stretch that is late by most."""
    begin, end = _greatest([block - least for block in blocks])
    if begin < end:  # Blocks before and after it may be late by chance.
        level = max(least, fmean(blocks[begin:end]) / 2)
        begin, end = _greatest([block - level for block in blocks])
    return begin, end


def _limit(levels: Sequence[Sequence[float]], index: int) -> float:
    """What is beyond the variation of the ranks other than ``index``; needs three of these."""
    if len(levels) <= 3:
        return 0.0
    others = [level for at, those in enumerate(levels) if at != index for level in those]
    centre = median(others)
    return centre + SPREADS * median([abs(each - centre) for each in others])


def _exceeds(late: Sequence[float], blocks: Sequence[float], least: float, ranks: int) -> bool:
    """Whether the lateness in steps is at least ``least``, beyond chance, and in most blocks."""
    centre = median(late)
    if centre < least or sum(block >= least / 2 for block in blocks) < HOLDS * len(blocks):
        return False
    # The mean tells two levels apart from one between them; single delays count little.
    most = centre + 3 * _DEVIATION * median([abs(value - centre) for value in late])
    values = [min(most, value) for value in late]
    error = max(stdev(blocks) / sqrt(len(blocks)), stdev(values) / sqrt(len(values)))
    return fmean(values) >= max(least, sqrt(2 * log(ranks / CHANCE)) * error)


def _greatest(values: Sequence[float]) -> tuple[int, int]:
    """The begin and end of the consecutive values with the greatest sum."""
    best, found, begin, total = 0.0, (0, 0), 0, 0.0
    for at, value in enumerate(values):
        if total <= 0:
            begin, total = at, 0.0
        total += value
        if total > best:
            best, found = total, (begin, at + 1)
    return found


# Single late steps


def _late_places(aligned: _Aligned) -> list[list[int]]:
    """The places of each rank's late steps."""
    centres = [median(late) for late in aligned.late]
    # Delays widen the side above.
    spreads = [
        centre - median([value for value in late if value <= centre])
        for centre, late in zip(centres, aligned.late, strict=True)
    ]
    least = max(LATE_SHARE * aligned.typical, LATE_SPREADS * median(spreads))
    limits = [max(centre, 0.0) + least for centre in centres]
    return [
        [at for at, value in enumerate(late) if value >= limit]
        for limit, late in zip(limits, aligned.late, strict=True)
    ]


def _recurring(aligned: _Aligned, late: Sequence[Sequence[int]]) -> list[_Candidate]:
    """The rank whose late steps recur, unless several ranks' do."""
    total, found = sum(map(len, late)), []
    costs = [sum(aligned.late[index][at] for at in places) for index, places in enumerate(late)]
    least = LEAST_COST * aligned.typical * len(aligned.numbers)
    ranked = sorted(range(len(late)), key=lambda index: -costs[index])
    for index in ranked[:PERIODS_SEARCHED]:
        places = late[index]
        if len(places) < RECURS or costs[index] < least:
            continue
        half = max(aligned.late[index][at] for at in places) / 2
        large = [at for at in places if aligned.late[index][at] >= half]
        period, hits, _ = min(
            (_period(aligned.numbers, those, len(late)) for those in (places, large)),
            key=lambda each: each[2],
        )
        others = (total - len(places) + 1) / (len(late) - 1)
        if period is None and (
            len(places) < MORE * others
            or _tail(len(places), total, len(late)) * len(late) > CHANCE / 10
        ):
            continue
        typical = median([aligned.late[index][at] for at in hits])
        if typical * len(hits) >= least:
            found.append(_Candidate(RECURRING, [index], hits, typical, period))
    whole = sum(each.cost for each in found)
    return [each for each in found if each.cost > CULPRIT * whole]


def _period(
    numbers: Sequence[int], places: Sequence[int], ranks: int
) -> tuple[int | None, Sequence[int], float]:
    """The period of late steps, those that have it, and the logarithm of the chance of it.

    None and all steps if there is none.
    """
    those = [numbers[at] for at in places]
    gaps = Counter(
        b - a for ahead in range(1, 5) for a, b in zip(those, those[ahead:], strict=False)
    )
    rate = len(those) / len(numbers)
    found: tuple[int | None, Sequence[int], float] = (None, places, log(CHANCE / 10 / ranks))
    for period, _ in gaps.most_common(PERIODS_SEARCHED):
        phase, hits = Counter(number % period for number in those).most_common(1)[0]
        if period < 2 or hits < RECURS:
            continue
        of = sum(number % period == phase for number in numbers)
        if hits < REGULAR * of:
            continue
        chance = lgamma(of + 1) - lgamma(hits + 1) - lgamma(of - hits + 1) + hits * log(rate)
        chance += 2 * log(period)  # Of so many periods and phases, this is one.
        if chance < found[2]:
            found = period, [at for at in places if numbers[at] % period == phase], chance
    return found


def _tail(count: int, total: int, ranks: int) -> float:
    """The chance that a rank has at least ``count`` of ``total`` events that may be any rank's."""
    least, share = lgamma(total + 1), log(1 / ranks)
    return sum(
        exp(
            least
            - lgamma(n + 1)
            - lgamma(total - n + 1)
            + n * share
            + (total - n) * log1p(-1 / ranks)
        )
        for n in range(count, min(count + 200, total) + 1)  # Further ones are too rare to count.
    )


def _rare(aligned: _Aligned, late: Sequence[Sequence[int]]) -> _Candidate | None:
    """A single large delay, or late steps of changing ranks."""
    latest: dict[int, int] = {}
    for index, places in enumerate(late):
        for at in places:
            if at not in latest or aligned.late[index][at] > aligned.late[latest[at]][at]:
                latest[at] = index
    delays = {at: aligned.late[index][at] for at, index in sorted(latest.items())}
    least = LEAST_COST * aligned.typical * len(aligned.numbers)
    if sum(delays.values()) < least:
        return None
    longest = max(delays, key=lambda at: delays[at])
    index, delay = latest[longest], delays[longest]
    others = max((delays[at] for at, rank in latest.items() if rank != index), default=0.0)
    if delay >= max(least, HUGE * aligned.typical, MORE * others):
        places = [at for at in delays if latest[at] == index and delays[at] >= delay / 2]
        return _Candidate(ONE_OFF, [index], places, median([delays[at] for at in places]))
    if len(delays) < RECURS:
        return None
    return _Candidate(ROTATING, [], [*delays], median(delays.values()))


# The finding


def _finding(aligned: _Aligned, found: _Candidate, late: Sequence[Sequence[int]]) -> Straggler:
    places, examined, numbers = found.places, len(aligned.numbers), aligned.numbers
    ranks = [aligned.ranks[index] for index in found.indices]
    all_the_time = found.kind == CONSTANT and len(places) == examined
    first = None if all_the_time else numbers[places[0]]
    if not ranks:
        last = max(map(len, late)) / sum(map(len, late))
        return Straggler(
            found.kind, None, [], None, None, None, found.late / 1e9, last, len(places), examined,
            None, first, None,
        )  # fmt: skip
    index = found.indices[0]
    part, own, others = _part(aligned, index, places)
    last = fmean(max(own[at] for own in aligned.own) == aligned.own[index][at] for at in places)
    return Straggler(
        found.kind, ranks[0], ranks, part, own, others, found.late / 1e9, last, len(places),
        examined, found.period, first, _gain(aligned, found.indices, places),
    )  # fmt: skip


def _part(aligned: _Aligned, index: int, places: Sequence[int]) -> tuple[str, float, float]:
    """The part in which a rank exceeds the others most; its time there and theirs, in seconds."""
    best = ("other", 0.0, 0.0)
    for part in OWN_PARTS:
        times = aligned.parts(part)
        own = median([times[index][at] for at in places])
        others = median([
            median([each[at] for at in places]) for rank, each in enumerate(times) if rank != index
        ])  # fmt: skip
        if own - others > best[1] - best[2]:
            best = (part, own, others)
    return best[0], best[1] / 1e9, best[2] / 1e9


def _gain(aligned: _Aligned, indices: Iterable[int], places: Sequence[int]) -> float | None:
    """By how much the job would be faster if these ranks were not late in these steps."""
    if not aligned.waited:
        return None
    excess = {
        index: max(0.0, median([aligned.late[index][at] for at in places])) for index in indices
    }
    rest = [own for index, own in enumerate(aligned.own) if index not in excess]
    others = [max(each) for each in zip(*rest, strict=True)] or [0.0] * len(aligned.numbers)
    whole = sum(aligned.longest) + sum(aligned.together)
    saved = sum(
        aligned.longest[at]
        - max(others[at], *(aligned.own[index][at] - least for index, least in excess.items()))
        for at in places
    )
    return saved / (whole - saved) if whole > saved > 0 else 0.0
