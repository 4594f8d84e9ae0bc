"""Finds the end of the warm-up: the step from which a task's step time is steady.

The method follows Barrett et al., "Virtual machine warmup blows hot and cold" (OOPSLA 2017) and
Traini et al. (EMSE 28, 2023): outliers are clipped, the series is cut into segments of equal mean,
and it is steady from the first segment of a tail whose means agree. Training runs are shorter than
theirs, hence further rules:

- The tail is at least a third of the steps. Short excursions from its level are ignored.
- A tail that drifts, or whose steps vary too much to predict the next ones, is not steady.
- After a decay, the tail begins where a fitted exponential is within the tolerance.
- An early step that takes many times the level, such as one that compiles, is warm-up.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate, groupby, pairwise

from .changepoints import changepoints
from .noise import clipped, noise
from .statistics import quantile
from .trends import decay, drifts, fits_line, outliers_drift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Means agree within ``TOLERANCE``, as in Traini et al.; if steps vary more, within ``NOISES``
#: times the noise, at most ``LOOSE``.
TOLERANCE, NOISES, LOOSE = 0.05, 3, 0.12
#: Minimum count of steps, and of those in the tail.
MIN_STEPS, MIN_TAIL = 12, 10
#: Without a steady state, a run with fewer steps or seconds is too short for "never steady".
ENOUGH_STEPS, ENOUGH_SECONDS = 60, 0.75
#: Maximum standard deviation of a step in a steady tail, relative to the mean. ``TORN`` applies if
#: the quartiles differ by more than a factor of two. ``JUDGED`` single steps suffice.
UNEVEN, TORN, JUDGED = 0.5, 0.3, 512
#: Score of a step off the tail's level; a step at the level counts 1.
_OFF = 3
#: An excursion is plain if it moves the mean of all steps by more than this share of the level.
_PLAIN = 0.025
#: An excursion is short up to ``_SHORT`` steps, or ``1 / _PART`` of all. The last steps may be off
#: up to ``_LAST`` steps, or the same share.
_SHORT, _LAST, _PART = 20, 5, 20
#: Excess of a spike over the level, in levels. The first ``_SHORT`` steps, or share, are early.
_SPIKE = 2
#: A decay is fitted from where it is this near its level, relative to it or in multiples of the
#: noise. The tail must have ``_OVER`` time constants; drift is searched after ``_FADED`` of them.
_NEAR, _NEAR_NOISES, _OVER, _FADED = 0.25, 25, 5, 2
#: Maximum count of groups of points in the changepoint search, and of means in the fit of a slope.
_GROUPS, _MEANS = 640, 18


class SteadyState:
    """Whether a task became steady, and from which step.

    Attributes:
        verdict: ``"steady"``, ``"never steady"``, ``"too few steps"``, or ``"too short"`` if
            there are enough steps but not for "never steady".
        from_step: Number of the first steady step; those before it were warm-up.
    """

    __slots__ = ("from_step", "verdict")

    def __init__(self, verdict: str, from_step: int | None = None) -> None:
        self.verdict, self.from_step = verdict, from_step

    def __str__(self) -> str:
        known = self.from_step is not None
        return f"{self.verdict} from step {self.from_step}" if known else self.verdict


def steady(
    values: Sequence[float],
    counts: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    seconds: float = math.inf,
) -> SteadyState:
    """Judge a series of step times.

    Args:
        values: Mean time of each point, in any unit. In points of several steps, outliers must be
            clipped as by ``noise.bounded_sum``.
        counts: Number of steps of each point, single ones first; by default one each.
        numbers: Number of each point's first step; by default counted from 0.
        seconds: Total time of all steps.
    """
    points = _Points(values, counts or [1] * len(values))
    if points.steps < MIN_STEPS or points.n < 2:
        return SteadyState("too few steps")
    at = _first_steady(points)
    if at is None:
        short = points.steps < ENOUGH_STEPS or seconds < ENOUGH_SECONDS
        return SteadyState("too short" if short else "never steady")
    return SteadyState("steady", numbers[at] if numbers is not None else points.before[at])


class _Segment:
    """Points ``begin`` to ``end``, without a detected change of their mean."""

    __slots__ = ("begin", "end", "mean", "steps")

    def __init__(self, begin: int, end: int, steps: int, mean: float) -> None:
        self.begin, self.end, self.steps, self.mean = begin, end, steps, mean


class _Points:
    """A series of step times with clipped outliers; indices are of points, lengths in steps.

    Attributes:
        before: The number of steps before each point, and of all steps at the end.
        head: The number of points that are single steps.
        sigma: The noise of a single step.
        weights: The number of single steps with as little noise as each point.
    """

    def __init__(self, values: Sequence[float], counts: Sequence[int]) -> None:
        self.values, self.n = [*values], len(values)
        self.before = [0, *accumulate(counts)]
        self.steps = self.before[-1]
        self.head = head = next((i for i, count in enumerate(counts) if count > 1), self.n)
        self.sigma = noise(self.values[head // 4 : head])
        blocks = noise(self.values[head:]) if head < self.n else self.sigma
        self.bounded = clipped(self.values[:head], self.sigma)
        self.bounded += clipped(self.values[head:], blocks)
        ratio = self.sigma / blocks
        worth = max(1.0, ratio * ratio)  # Not ``**``, which raises OverflowError.
        self.weights = [min(worth, count) for count in counts]
        self.sums = [0.0, *accumulate(v * c for v, c in zip(self.bounded, counts, strict=True))]

    def mean(self, begin: int, end: int) -> float:
        """The mean time of the steps in these points."""
        return (self.sums[end] - self.sums[begin]) / (self.before[end] - self.before[begin])

    def parts(self, begin: int, k: int) -> list[float]:
        """Means of up to ``k`` parts of nearly equal length, from point ``begin`` on."""
        k, first = min(k, (self.n - begin) // 3), self.before[begin]
        ends = (first + i * (self.steps - first) // k for i in range(k + 1)) if k > 0 else ()
        cuts = sorted({bisect_left(self.before, end) for end in ends})
        return [self.mean(a, b) for a, b in pairwise(cuts)]

    def segments(self) -> list[_Segment]:
        """Cut the series where its mean changes."""
        begins = self._groups()
        bounds = [*pairwise([*begins, self.n])]
        means = [self.mean(a, b) for a, b in bounds]
        weights = [sum(self.weights[a:b]) for a, b in bounds]
        penalty = 4 * math.log(len(begins)) * self.sigma**2
        cuts = [begins[cut] for cut in changepoints(means, weights, penalty)]
        return [
            _Segment(a, b, self.before[b] - self.before[a], self.mean(a, b))
            for a, b in pairwise([*cuts, self.n])
        ]

    def _groups(self) -> list[int]:
        """The begins of groups of points, which grow with their distance from the start."""
        for share in (512, 128, 64, 32):
            begins, due = list[int](), 0
            for i, before in enumerate(self.before[:-1]):
                if before >= due:
                    begins.append(i)
                    due = before + max(1, before // share)
            if len(begins) <= _GROUPS:
                break
        return begins


def _first_steady(points: _Points) -> int | None:
    """The first steady point; None if there is none."""
    segments, tail = points.segments(), max(MIN_TAIL, points.steps // 3)
    start = points.steps - tail
    longest = max(segments, key=lambda s: points.before[s.end] - max(start, points.before[s.begin]))
    level = longest.mean
    loose = NOISES * points.sigma / level if level > 0 else 0.0
    band = max(TOLERANCE, min(loose, LOOSE)) * level
    first = _tail(points, segments, level, band)
    if first is None:
        return None
    approach = _approach(points, segments, first, level)
    if approach < first and _slopes(points, segments, segments[approach].begin):
        return None
    for last in range(first, len(segments)):
        at = _located(points, segments, last)
        found = _decay(points, at)
        at, faded = found or (at, at)
        if points.steps - points.before[at] < tail:
            return None
        if not _drifts(points, faded, level):
            return None if _uneven(points, at) else _after_spike(points, at, tail)
        if _slopes(points, segments, faded):
            return None  # Otherwise the tail has a few close levels: a later one may be enough.
    return None


def _tail(points: _Points, segments: list[_Segment], level: float, band: float) -> int | None:
    """The first segment of the tail: the best score of steps at ``level`` against others.

    None if the last steps are off, unless they are few and hardly move the mean of all steps.
    """
    best, found, score, after, off = 0, None, 0, 0, 0.0
    for i in range(len(segments) - 1, _after_excursion(points, segments, level, band) - 1, -1):
        each = segments[i]
        score += each.steps if abs(each.mean - level) <= band else -_OFF * each.steps
        if score > best:
            best, found = score, i
        elif found is None:
            after += each.steps
            off += (each.mean - level) * each.steps
    few = after <= max(_LAST, points.steps // _PART)
    return found if few and abs(off) <= _PLAIN * level * points.steps else None


def _after_excursion(points: _Points, segments: list[_Segment], level: float, band: float) -> int:
    """The segment after the only long and plain excursion from ``level``; 0 unless there is one.

    One slow epoch is warm-up. Slow steps in every epoch are part of the run.
    """
    ends, end = [], 0
    for alike, group in groupby(segments, lambda each: abs(each.mean - level) <= band):
        excursion = [*group]
        end += len(excursion)
        steps = sum(each.steps for each in excursion)
        off = sum((each.mean - level) * each.steps for each in excursion)
        long = steps > max(_SHORT, points.steps // _PART)
        if not alike and long and abs(off) > _PLAIN * level * points.steps:
            ends.append(end)
    return ends[0] if len(ends) == 1 else 0


def _approach(points: _Points, segments: list[_Segment], first: int, level: float) -> int:
    """The first segment of the approach to a tail; ``first``, the tail's own, without one.

    The approach is between a quarter of the tail and all of it in length, and stays near ``level``.
    """
    begin, at = first, points.before[segments[first].begin]
    while begin > 0 and points.before[segments[begin].begin] > 2 * at - points.steps:
        if begin < first and abs(segments[begin - 1].mean - level) > _NEAR * level:
            break
        begin -= 1
    short = 4 * (at - points.before[segments[begin].begin]) <= points.steps - at
    return first if short else begin


def _slopes(points: _Points, segments: list[_Segment], begin: int) -> bool:
    """Whether the apparent levels from point ``begin`` on are a slope."""
    middles = [(a + b) / 2 for a, b in pairwise(points.before[begin:])]
    cuts = [0, *(each.begin - begin for each in segments if each.begin > begin)]
    values, weights = points.bounded[begin:], points.weights[begin:]
    return fits_line(middles, values, weights, cuts, points.sigma)


def _located(points: _Points, segments: list[_Segment], last: int) -> int:
    """The point near the begin of segment ``last`` that separates it best from the one before."""
    found = segments[last].begin
    if not last:
        return found
    before, after, best, error = segments[last - 1], segments[last], math.inf, 0.0
    for i in range(before.begin, min(points.n, 2 * found - before.begin + 8) - 1):
        value, weight = points.bounded[i], points.weights[i]
        error += weight * ((value - before.mean) ** 2 - (value - after.mean) ** 2)
        if error < best:
            best, found = error, i + 1
    return found


def _decay(points: _Points, at: int) -> tuple[int, int] | None:
    """The points at which a decay that ends near ``at`` is within the tolerance, and has faded."""
    level = points.mean(at, points.n)
    near = max(_NEAR * level, _NEAR_NOISES * points.sigma)
    # The first steps have neighbours on one side only, which would clip a decay flat.
    unbounded = [*points.values[:3], *points.bounded[3:]]
    for values in (unbounded, points.bounded):
        begin = at
        while begin > 0 and abs(values[begin - 1] - level) <= near:
            begin -= 1
        end = min(points.head, at + 3 * (at - begin) + 20)
        found = decay(values[begin:end], at - begin, points.sigma) if at - begin > 3 else None
        if found is not None:
            until = begin + max(0, math.ceil(found.falls_to(TOLERANCE * found.level)))
            if until < points.head and points.steps - until >= _OVER * found.tau:
                return until, min(points.n - 1, until + math.ceil(_FADED * found.tau))
    return None


def _after_spike(points: _Points, at: int, tail: int) -> int:
    """The point after the last plain early spike; ``at`` if there are similar ones later."""
    level, left = points.mean(at, points.n), points.steps - points.before[at]
    early = min(points.head - at, max(_SHORT, left // _PART))
    over = [points.values[i] - points.bounded[i] for i in range(at, points.head)]
    spike = max(_SPIKE, _PLAIN * left) * level
    last = max((i for i in range(early) if over[i] > spike), default=None)
    if last is None or left - last - 1 < tail or 2 * max(over[last + 1 :], default=0) > over[last]:
        return at
    return at + last + 1


def _drifts(points: _Points, at: int, level: float) -> bool:
    """Whether the tail or its clear outliers drift."""
    if drifts(points.parts(at, _MEANS), level):
        return True
    over = [(i, points.values[i] - points.bounded[i]) for i in range(at, points.head)]
    clear = {i: excess for i, excess in over if abs(excess) > 3 * points.sigma}
    return outliers_drift([*clear], [*clear.values()], level)


def _uneven(points: _Points, at: int) -> bool:
    """Whether the tail's steps vary too much, by means of consecutive steps."""
    end = points.head if points.head - at >= JUDGED else points.n
    n = end - at
    k = max(1, n // max(2, min(16, n // 16)))
    means = sorted(points.mean(at + i * n // k, at + (i + 1) * n // k) for i in range(k))
    # Occasional hiccups lie outside of these quantiles, 2.07 standard deviations apart.
    spread = (quantile(means, 0.85) - quantile(means, 0.15)) / 2.07
    steps = (points.before[end] - points.before[at]) / k
    ordered = sorted(points.values[at:end])
    torn = quantile(ordered, 0.75) > 2 * quantile(ordered, 0.25)
    limit = TORN if torn else UNEVEN
    return spread * math.sqrt(steps) > limit * points.mean(at, end)
