"""Warm-up found, not guessed: from which step on a task's step time is steady, if it ever is.

The method follows Barrett et al. (OOPSLA 2017) and Traini et al. (EMSE 28, 2023): outliers are
bounded, the series is cut into segments of equal mean (PELT), and it is steady from the first
segment of a tail whose segments are all alike. Beyond them, for series as short as a training run's
beginning: the tail must hold a third of the steps, hiccups in it may cost it a third of their worth
but one long stretch of another level, a slow epoch say, is none, a tail that drifts is not steady,
nor is one that comes after many changes and is not free of them, nor one so uneven that its rate
over a dozen steps says little of that over the next, and the boundary is moved to the very step: of
a decay, to where an exponential fitted to it is within the tolerance; behind a spike that comes
early, and has none like it later.
Where single steps vary, so do means: a machine that does other things too has its better and worse
moments. If no level is kept by the first measure, or from late on only, one is looked for with a
tolerance that goes by the noise; if there is none at all, a cliff between two levels that the
tolerance makes one, each of them kept. At last a slope is forgiven that is but a few levels near
each other, and so are a few last steps a little off.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

from .bounding import CHUNK, bounded_sums, grain, reach
from .changepoints import HALF, changepoints, clipped, noise
from .cycles import without_cycle
from .decays import Decay, decay, is_decay
from .series import Series
from .slopes import PLAIN, drifts, levelled, peaks_rise, rising, sloping
from .statistics import at_least, quantile

#: Means this close are the same performance; Traini et al. use the same.
TOLERANCE = 0.05
#: Fewer steps than this say nothing; nor does a tail of fewer than ``TAIL``.
FEWEST = 12
TAIL = 10
#: A run shorter than this in which no steady state shows is called too short.
SHORT = 60
#: So does one whose steps took less time in all, in ns: a pause of some other program, a processor
#: that changes its clock, caches that fill take as long as a part of it that could be told apart.
BRIEF = 0.75e9
#: The most that the time of a step may deviate in a steady tail, as a part of it; and where half
#: of the steps are more than twice apart. What repeats every few steps does not count.
UNEVEN = 0.5
TORN = 0.3
#: Means apart by so many times the noise, or by so much, may be the same performance too, when
#: those of eight parts of the tail are no further apart than this.
NOISES, LOOSE, RANGE = 3, 0.12, 0.15
#: Two levels so far apart are told from each other where each is kept, as parts of the last.
CLIFF = (0.01, 0.1)
#: The first of so many parts of a tail may be the end of the way to it.
ARRIVED = 12
#: The last of so many parts of a run may be a little off.
ODD = 20
#: A spike is so many times the level above it; so many steps, or one in :data:`ODD`, are early.
SPIKE, EARLY = 5, 20
#: Where more of the tail's steps are outside its band, they are of another mode, not of warm-up.
MODES = 0.05
#: As slow as others is what takes so many times as long beyond the level; and what may be chance.
LIKE, CHANCE = 1.5, 0.005
#: A decay is looked at from where it is so near its level, as a part of it or in times the noise;
#: and the tail is so many of its time constants long: what is left makes up to 1 % of it then.
NEAR, OVER = (0.25, 25), TOLERANCE / 0.01
#: What a step outside the tail's level costs, in steps inside it.
_HICCUP = 3
#: One stretch of more steps than this, in a row and as a part of all, is no hiccup where it alone
#: moves the mean of all by as much as a plain drift does; unless another is like it, within so many
#: times its length and its worth.
_FEW, _SHORT, _AGAIN = 20, 0.05, 2
_OUTLIER = 2
_UNITS = 640
#: Means that a slope is fitted to.
_PARTS = 18
#: So many single steps are enough to tell how uneven they are.
_JUDGED = 512


@dataclass(frozen=True)
class Verdict:
    """Whether a task became steady.

    Attributes:
        verdict: ``"steady"``, ``"never steady"`` or ``"too few steps"``.
        from_step: Number of the first steady step, from 0: so many were warm-up.
    """

    verdict: str
    from_step: int | None = None

    def __str__(self) -> str:
        if self.from_step is None:
            return self.verdict
        return f"steady from step {self.from_step}"


TOO_FEW = Verdict("too few steps")
NEVER = Verdict("never steady")


@dataclass(frozen=True)
class Segment:
    """Points ``begin`` to ``end``, of equal mean as far as can be told."""

    begin: int
    end: int
    steps: int
    mean: float


@dataclass(frozen=True)
class _Way:
    """A decay from point ``begin`` on that comes within the tolerance at point ``until``."""

    begin: int
    until: int
    decay: Decay

    def as_one(self, segments: list[Segment]) -> list[Segment]:
        """The segments without what it falls, or rises, through: all that is one change."""
        over = self.until + self.decay.tau
        ahead = [each for each in segments if each.begin <= self.begin]
        while len(ahead) > 1 and (ahead[-2].mean - ahead[-1].mean) * self.decay.excess > 0:
            ahead.pop()
        return ahead + [each for each in segments if each.begin >= over]


def find_steady(series: Series) -> Verdict:
    """The verdict on a series of step times; what is over in a moment never had the time."""
    numbers, counts, values = series.points()
    verdict = steady(series.bounded(), counts, numbers)
    brief = sum(v * c for v, c in zip(values, counts, strict=True)) < BRIEF
    return TOO_FEW if verdict is NEVER and brief else verdict


def steady(
    values: Sequence[float],
    counts: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
) -> Verdict:
    """The verdict on step times.

    Args:
        values: Mean time of each point, in any unit; of a point of several steps with their
            outliers bounded as ``bounded_sum`` does.
        counts: Steps of each point; one each when not given.
        numbers: Number of each point's first step; counted from 0 when not given.
    """
    search = _Search(values, counts or [1] * len(values))
    if search.steps < FEWEST:
        return TOO_FEW
    at = search.boundary()
    if at is None:
        return TOO_FEW if search.steps < SHORT else NEVER
    return Verdict("steady", numbers[at] if numbers is not None else search.before[at])


class _Search:
    """One series on its way to a boundary; indices are points, lengths are steps."""

    def __init__(self, values: Sequence[float], counts: Sequence[int]) -> None:
        self.values = values
        self.counts = counts
        self.before = [0, *accumulate(counts)]
        self.steps = self.before[-1]
        self.n = len(values)
        if self.steps >= FEWEST:
            self._bound()
            self.tail = max(TAIL, self.steps // 3)
            self.tolerance = TOLERANCE

    def boundary(self) -> int | None:
        """The first steady point, None when there is none."""
        at = self._found()
        return at if at is None else self._past_spike(at)

    def _past_spike(self, at: int) -> int:
        """The point behind the last spike near the beginning, if hardly any step is slow later.

        So it is where something is compiled once more after a few steps: it is no hiccup like
        others, and makes up a good part of all.
        """
        end = self.before[at] + max(EARLY, (self.steps - self.before[at]) // ODD)
        level = self._mean(at, self.n)
        over = [v - b for v, b in zip(self.values[at : self.head], self.bounded[at:], strict=False)]
        first = sum(before < end for before in self.before[at : self.head])
        spikes = [i for i, excess in enumerate(over[:first]) if excess > SPIKE * level]
        if not spikes:
            return at
        last = spikes[-1]
        behind = at + last + 1
        later = over[last + 1 :]
        slow = [excess for excess in later if excess > level / 2]
        rare = 100 * len(slow) <= len(later) and 2 * max(slow, default=0) < over[last]
        plain = over[last] > PLAIN[0] * level * (self.steps - self.before[at])
        left = self.steps - self.before[behind]
        return behind if rare and plain and left >= self.tail else at

    def _found(self) -> int | None:
        """The first point from which on one level is kept."""
        segments = self._segments()
        at = self._settled(segments)
        if at is not None and not self._within(segments, at):
            return at
        cliff = self._cliff(segments)
        if cliff is not None or at is not None:
            return at if cliff is None else cliff
        self.tolerance = TOLERANCE
        return self._boundary(segments, self._level(segments), lenient=True)

    def _within(self, segments: list[Segment], at: int) -> bool:
        """Whether ``at`` parts the last segment but one, where the level does not change."""
        return len(segments) > 1 and segments[-2].begin < at < segments[-1].begin

    def _settled(self, segments: list[Segment]) -> int | None:
        """The first point of a tail whose segments are alike."""
        level = self._level(segments)
        at = self._boundary(segments, level)
        usual = quantile(sorted(self.values), 0.5)
        loose = min(LOOSE, NOISES * self.sigma / usual) if usual > 0 else 0
        if at == 0 or loose <= TOLERANCE:
            return at
        self.tolerance = loose
        wide = self._boundary(segments, level)
        if wide is None or self._ranges(wide, usual):
            return at
        if at is None or (wide < at and abs(self._mean(wide, at) - level) <= TOLERANCE * level):
            return wide
        return at

    def _boundary(self, segments: list[Segment], level: float, lenient: bool = False) -> int | None:
        """The first steady point by the tolerance as it is.

        Leniently, levels near each other are no slope, and more of the last steps may be odd.
        """
        last = self._tail_of(segments, level, lenient)
        if last is None:
            return None
        at = segments[last].begin
        before = segments[last - 1] if last else None
        if before is not None:
            if self._ramps(self._approach(segments, last, level), at):
                return None
            at = self._located(before, at, level, 2 * self.tolerance * level)
        at = self._trimmed(at, before.mean if before is not None else level, level)
        way = self._decay(at, level)
        if way is not None:
            at = way.until
        if self.steps - self.before[at] < self.tail:
            return None
        if self._restless(segments, at, way) or self._uneven(at):
            return None
        if self._drifts(at, level, way) and not (
            lenient and self._levelled(at, level, segments[last + 1 :])
        ):
            return None
        return at

    def _cliff(self, segments: list[Segment]) -> int | None:
        """Where one level falls or rises to the last, if both are kept as flat as can be told.

        So near each other they may be that single steps of both are within the tolerance, and
        that the cliff, were it in the tail, made it slope.
        """
        if len(segments) < 2 or segments[-1].steps < self.tail or segments[-2].steps < TAIL:
            return None
        before, last = segments[-2:]
        level, gap = last.mean, abs(before.mean - last.mean)
        clear = max(2 * self.sigma, CLIFF[0] * level)
        if not (clear <= gap <= CLIFF[1] * level and self._flat(before, gap / 4)):
            return None
        at = self._located(before, last.begin, level, gap)
        if self.steps - self.before[at] < self.tail or not self._flat(last, gap / 4):
            return None
        if self._restless(segments, at) or self._drifts(at, level) or self._uneven(at):
            return None
        return at

    def _flat(self, segment: Segment, most: float) -> bool:
        """Whether a segment can be told to rise or fall by less than ``most`` over its length."""
        k = min(_PARTS, (segment.end - segment.begin) // 3)
        if k < 4:
            return False
        rise, error = rising(self._parts(segment.begin, k, segment.end))
        return error <= most and abs(rise) <= max(most, error)

    def _bound(self) -> None:
        """Bound outliers, and weigh single steps and blocks of them by their own noise."""
        head = self.head = next((i for i, count in enumerate(self.counts) if count > 1), self.n)
        single, blocks = without_cycle(self.values[:head]), self.values[head:]
        settled = single[head // 4 :]
        floor = grain(settled)
        self.sigma = max(noise(settled), floor)
        sigma = max(noise(blocks), floor)
        bounded = clipped(single, self.sigma)
        if blocks:
            more = _outlying(self.values[:head], bounded)
            single, bounded = [v + more for v in single], [v + more for v in bounded]
        self.values = [*single, *blocks]
        self.bounded = bounded + clipped(blocks, sigma)
        ratio = self.sigma / sigma
        worth = max(1.0, ratio * ratio)  # Not a power: that overflows with an error.
        self.weights = [min(worth, count) for count in self.counts]
        self.sums = self._summed(self.bounded)
        self.raw = self._summed(self.values)

    def _summed(self, values: Sequence[float]) -> list[float]:
        """What the steps before each point come to."""
        return [0.0, *accumulate(v * c for v, c in zip(values, self.counts, strict=True))]

    def _mean(self, begin: int, end: int) -> float:
        return (self.sums[end] - self.sums[begin]) / (self.before[end] - self.before[begin])

    def _units(self) -> list[int]:
        """Where groups of points begin whose length grows with their distance from the start."""
        for share in (512, 192, 128, 96, 64, 48, 32):
            begins, due = [], 0
            for i, before in enumerate(self.before[:-1]):
                if before >= due:
                    begins.append(i)
                    due = before + max(1, before // share)
            if len(begins) <= _UNITS:
                break
        return begins

    def _segments(self) -> list[Segment]:
        begins = self._units()
        ends = [*begins[1:], self.n]
        means = [self._mean(a, b) for a, b in zip(begins, ends, strict=True)]
        weights = [sum(self.weights[a:b]) for a, b in zip(begins, ends, strict=True)]
        penalty = 4 * math.log(len(begins)) * self.sigma**2
        cuts = [begins[unit] for unit in changepoints(means, weights, penalty)]
        return [
            Segment(a, b, self.before[b] - self.before[a], self._mean(a, b))
            for a, b in zip(cuts, [*cuts[1:], self.n], strict=True)
        ]

    def _level(self, segments: list[Segment]) -> float:
        """The median over the steps of the tail of their segments' means."""
        start = self.steps - self.tail
        parts = sorted(
            (each.mean, self.before[each.end] - max(start, self.before[each.begin]))
            for each in segments
            if self.before[each.end] > start
        )
        seen = accumulate(steps for _, steps in parts)
        return next(m for (m, _), steps in zip(parts, seen, strict=True) if steps * 2 >= self.tail)

    def _tail_of(self, segments: list[Segment], level: float, lenient: bool) -> int | None:
        """The segment from which on the most steps are at ``level`` and the fewest are not."""
        best, found, score, after, off = 0, None, 0, 0, 0.0
        for i in range(len(segments) - 1, self._behind(segments, level) - 1, -1):
            alike = self._alike(segments[i], level)
            score += segments[i].steps if alike else -_HICCUP * segments[i].steps
            if score > best:
                best, found = score, i
            elif found is None:
                after += segments[i].steps
                off += (segments[i].mean - level) * segments[i].steps
        few = after <= max(5, self.steps // 40) and abs(off) <= self.tolerance * level * self.steps
        few = few or (lenient and self._ends_oddly(segments, level))
        return found if few else None

    def _alike(self, segment: Segment, level: float) -> bool:
        return abs(segment.mean - level) <= self.tolerance * level

    def _behind(self, segments: list[Segment], level: float) -> int:
        """The segment behind the last stretch that is no hiccup; 0 when there is none.

        A slow epoch among fast ones is none. What is slow in each of them is part of how they go.
        """
        stretches, i = [], 0
        for alike, group in groupby(segments, lambda each: self._alike(each, level)):
            part = list(group)
            i += len(part)
            if not alike:
                off = sum((each.mean - level) * each.steps for each in part)
                stretches.append((i, sum(each.steps for each in part), off))
        for behind, steps, off in reversed(stretches):
            if steps <= max(_FEW, _SHORT * self.steps) or abs(off) <= PLAIN[0] * level * self.steps:
                continue
            same = sum(
                1 / _AGAIN <= n / steps <= _AGAIN and 1 / _AGAIN <= o / off <= _AGAIN
                for _, n, o in stretches
            )
            if same == 1:
                return behind
        return 0

    def _ends_oddly(self, segments: list[Segment], level: float) -> bool:
        """Whether the last few steps alone are off, at once and not by much: no trend's end."""
        if len(segments) < 2:
            return False
        before, last = (each.mean - level for each in segments[-2:])
        band, values = self.tolerance * level, self.bounded[segments[-1].begin :]
        if ODD * segments[-1].steps > self.steps or abs(last) > 2 * band or len(values) < 4:
            return False
        rise, error = rising(values)
        return before * last <= band * abs(last) / 2 and rise * last <= 3 * error * abs(last)

    def _approach(self, segments: list[Segment], last: int, level: float) -> int:
        """Where the way to the tail begins: as far back as the tail is long, if it is no cliff."""
        first = last - 1
        enough = self.before[segments[last].begin] * 2 - self.steps
        while first > 0 and self.before[segments[first].begin] > enough:
            if abs(segments[first - 1].mean - level) > 0.25 * level:
                break
            first -= 1
        return segments[first].begin

    def _ramps(self, begin: int, at: int) -> bool:
        """Whether what looks like a change at ``at`` is a slope: a line fits it better."""
        ahead = self.before[at] - self.before[begin]
        if 4 * ahead <= self.steps - self.before[at]:
            return False
        values, weights = self.bounded[begin:], self.weights[begin:]
        return sloping(self._middles(begin), values, weights, at - begin, self.sigma)

    def _middles(self, begin: int) -> list[float]:
        """Where points stand, from ``begin`` on."""
        return [(a + b) / 2 for a, b in pairwise(self.before[begin:])]

    def _located(self, before: Segment, at: int, level: float, gap: float) -> int:
        """The boundary within the segments around it that leaves the least squared error.

        What is before it is taken to be ``gap`` from ``level`` at least.
        """
        other = (
            max(before.mean, level + gap) if before.mean > level else min(before.mean, level - gap)
        )
        end = min(self.n, 2 * at - before.begin + 8)
        best, error, found = math.inf, 0.0, at
        for i in range(before.begin, end - 1):
            value = self.bounded[i]
            error += self.weights[i] * ((value - other) ** 2 - (value - level) ** 2)
            if error < best:
                best, error_at = error, i + 1
                found = error_at
        return found

    def _trimmed(self, at: int, other: float, level: float) -> int:
        """Move the boundary so that it parts single steps within the tail's band from others."""
        band = max(self.tolerance * level, 3 * self.sigma)
        inside = [abs(value - level) <= band for value in self.values]
        half = (at + self.n) // 2
        if inside[half:].count(False) > MODES * (self.n - half):  # Some of the tail's are so, too.
            nearer = max(band, abs(other - level) / 2)
            inside = [abs(value - level) <= nearer for value in self.values]
        end = min(self.n, at + max(20, (self.n - at) // 4))
        score, best, found = 0, -1, at
        for i in range(end - 1, at - 1, -1):
            score += 1 if inside[i] else -_OUTLIER
            if score >= best or i == end - 1:
                best, found = score, i
        if found > at and self._as_later(inside, at, found, level):
            found = at
        if 3 * self.sigma > self.tolerance * level and abs(other - level) < 6 * self.sigma:
            return found  # Single steps do not tell one level from the other.
        score, best = 0, 0
        for i in range(found - 1, max(-1, found - 200), -1):
            score += 1 if inside[i] else -_OUTLIER
            if score >= best:
                best, found = score, i
            elif score < -12:
                break
        return found

    def _as_later(self, inside: Sequence[bool], at: int, to: int, level: float) -> bool:
        """Whether up to ``to`` steps are outside by as much, and as many by chance, as later on.

        Then they are of another mode, as those are.
        """
        half = (to + self.n) // 2
        later = [abs(self.values[i] - level) for i in range(half, self.n) if not inside[i]]
        first = [abs(self.values[i] - level) for i in range(at, to) if not inside[i]]
        if len(later) < 2 or max(first, default=0) > LIKE * quantile(sorted(later), 0.5):
            return False
        # Of all there are: no more than nearly all.
        share = len(later) / (self.n - half + 1)
        return at_least(len(first), to - at, share) > CHANCE

    def _decay(self, at: int, level: float) -> _Way | None:
        """The decay that ends at ``at`` or about there, None if it is none, or not over soon.

        The first steps of all, of those that are bounded by what is about them, have it on one
        side only: there a decay is made flat.
        """
        whole = [*self.values[:HALF], *self.bounded[HALF:]]
        return self._decay_of(whole, at, level) or self._decay_of(self.bounded, at, level)

    def _decay_of(self, bounded: Sequence[float], at: int, level: float) -> _Way | None:
        part, noises = NEAR
        begin, near = at, max(part * level, noises * self.sigma)
        while begin > 0 and abs(bounded[begin - 1] - level) <= near:
            begin -= 1
        if at - begin < 4:
            return None
        values = bounded[begin : min(self.head, at + 3 * (at - begin) + 20)]
        found = decay(values)
        if found is None or not is_decay(found, values, at - begin, self.sigma):
            return None
        until = begin + max(0, math.ceil(found.falls_to(TOLERANCE * found.level)))
        if until >= self.head or self.steps - until < OVER * found.tau:
            return None
        return _Way(begin, until, found)

    def _restless(self, segments: list[Segment], at: int, way: _Way | None = None) -> bool:
        """Whether change came after change until late, and is in the tail: by chance it stays."""
        if way is not None:
            segments = way.as_one(segments)
        ahead = sum(each.begin < at - 5 for each in segments)
        if ahead <= 2 or 3 * self.before[at] <= self.steps:
            return False
        behind = self.before[at] + (self.steps - self.before[at]) // ARRIVED
        return sum(self.before[each.begin] > behind for each in segments) >= 2

    def _drifts(self, at: int, level: float, way: _Way | None = None) -> bool:
        """Whether the tail has a slope, but for what is left of a decay to it."""
        if drifts(self._rests(at, _PARTS, self.sums, way), level) or self._peaks_rise(at, level):
            return True
        if way is not None and drifts(
            self._rests((at + self.n) // 2, _PARTS // 2, self.sums, way), level
        ):
            return True  # What the decay has left would hide it.
        if self.head < self.n:
            return False  # Of steps in blocks, outliers are bounded before they are added up.
        return drifts(self._rests(at, _PARTS, self.raw, way), level, (PLAIN,))

    def _rests(self, at: int, most: int, sums: Sequence[float], way: _Way | None) -> list[float]:
        """Means of parts from a point on, without what a decay has left there."""
        cuts = self._cuts(at, min(most, (self.n - at) // 3))
        means = [(sums[b] - sums[a]) / (self.before[b] - self.before[a]) for a, b in pairwise(cuts)]
        if way is not None:
            steps = pairwise(self.before[cut] - way.begin for cut in cuts)
            means = [m - way.decay.mean(a, b) for m, (a, b) in zip(means, steps, strict=True)]
        return means

    def _peaks_rise(self, at: int, level: float) -> bool:
        """Whether outliers, clear ones, among the tail's single steps grow or shrink."""
        off = [v - b for v, b in zip(self.values[at : self.head], self.bounded[at:], strict=False)]
        peaks = {i: excess for i, excess in enumerate(off) if abs(excess) > 3 * self.sigma}
        return peaks_rise([*peaks], [*peaks.values()], level)

    def _levelled(self, at: int, level: float, later: list[Segment]) -> bool:
        """Whether the tail's slope is but that its segments differ a little."""
        cuts = [0, *(each.begin - at for each in later if each.begin > at)]
        values, weights = self.bounded[at:], self.weights[at:]
        return levelled(self._middles(at), values, weights, cuts, level, self.sigma)

    def _ranges(self, at: int, usual: float) -> bool:
        """Whether parts of the tail are too far apart: it wanders."""
        means = self._parts(at, max(4, min(8, (self.n - at) // 8)))
        return max(means) - min(means) > RANGE * usual

    def _parts(self, at: int, k: int, end: int | None = None) -> list[float]:
        """Means of ``k`` parts, as long in steps or nearly, of the tail or of what ends before."""
        return [self._mean(a, b) for a, b in pairwise(self._cuts(at, k, end))]

    def _cuts(self, at: int, k: int, end: int | None = None) -> list[int]:
        """Where these parts begin, and the last ends."""
        first = self.before[at]
        steps = (self.steps if end is None else self.before[end]) - first
        return sorted({bisect_left(self.before, first + i * steps // k) for i in range(k + 1)})

    def _uneven(self, at: int) -> bool:
        """Whether the tail's steps vary too much, judged by means of a few in a row."""
        end = self.head if self.head - at >= _JUDGED else self.n
        n = end - at
        k = n // max(2, min(16, n // 16))
        means = sorted(self._mean(at + i * n // k, at + (i + 1) * n // k) for i in range(k))
        # Of what lies between: a hiccup is no unevenness. 2.07 is the same range of a normal.
        spread = (quantile(means, 0.85) - quantile(means, 0.15)) / 2.07
        steps = (self.before[end] - self.before[at]) / k
        ordered = sorted(self.values[at:end])
        torn = quantile(ordered, 0.75) > 2 * quantile(ordered, 0.25)
        limit = TORN if torn else UNEVEN
        return spread * math.sqrt(steps) > limit * self._mean(at, end)


def _outlying(values: Sequence[float], bounded: Sequence[float]) -> float:
    """What the mean of these steps would be above that of ``bounded``, had they come in blocks.

    These have their outliers bounded more loosely, and keep their cycle. Warm-up has no say.
    """
    half = len(values) // 2 // CHUNK * CHUNK
    if not half:
        return 0.0
    (total,) = bounded_sums(values[-half:], half, reach(values))
    return (total - sum(bounded[-half:])) / half
