"""Aligns the clocks of a job's machines by collectives, which end on all ranks at the same moment.

A machine's clock, as compared with the first machine's, is a line: an offset and a rate. Ranks of
one machine share its monotonic clock. A machine whose clock cannot be aligned is laid beside the
others: its first moment is put at the first machine's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import fmean, median
from typing import NamedTuple

from .digest import DDP_WAITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .digest import Digest

    Moments = dict[tuple[str, int], int]

#: Collectives that a machine must have in common with another one.
MIN_COMMON = 8
#: The largest uncertainty, in ns, at which machines are shown on one clock.
CERTAIN = 1_000_000
#: By how much the rates of two machines' clocks differ as a rule: moments must outweigh this.
CRYSTALS = 100e-6
#: A median absolute deviation as a standard deviation, and how many of these an outlier is away.
SIGMA, OUTLIER = 1.4826, 4.0
#: The least standard deviation that is believed, in ns.
LEAST = 1000.0


class Correction(NamedTuple):
    """A correction: ``offset + rate * (time - at)`` ns is added to ``time``.

    Attributes:
        uncertainty: In ns, over all of the time asked for.
    """

    at: int
    offset: int
    rate: float
    uncertainty: float

    def moved(self, time: int) -> int:
        """``time`` by the other clock."""
        return time + self.offset + int(self.rate * (time - self.at))


UNCHANGED = Correction(0, 0, 0.0, 0.0)


def fitted(pairs: Sequence[tuple[int, int]], begin: int, end: int) -> Correction:
    """Fit a line to moments by two clocks.

    Args:
        pairs: The moment by the clock that is corrected, and by the other one, in ns.
        begin: The first moment to be corrected; ``end`` is the last.
    """
    pairs = sorted(pairs)
    since, base = pairs[0][0], pairs[0][1] - pairs[0][0]
    xs = [float(x - since) for x, _ in pairs]
    ys = [float(y - x - base) for x, y in pairs]
    half = len(xs) // 2
    # Of pairs half of the time apart: as insensitive to outliers as a median.
    rises = ((xs[n + half] - xs[n], ys[n + half] - ys[n]) for n in range(len(xs) - half))
    rate = median([dy / dx for dx, dy in rises if dx > 0] or [0.0])
    rate = min(max(rate, -CRYSTALS), CRYSTALS)
    for _ in range(3):
        away = [y - rate * x for x, y in zip(xs, ys, strict=True)]
        centre = median(away)
        sigma = max(SIGMA * median(abs(one - centre) for one in away), LEAST)
        kept = [n for n, one in enumerate(away) if abs(one - centre) <= OUTLIER * sigma]
        middle, height = fmean(xs[n] for n in kept), fmean(ys[n] for n in kept)
        wide = sum((xs[n] - middle) ** 2 for n in kept) + (sigma / CRYSTALS) ** 2
        rate = sum((xs[n] - middle) * (ys[n] - height) for n in kept) / wide
    far = max(abs(begin - since - middle), abs(end - since - middle))
    doubt = sigma + 3 * sigma * sqrt(1 / len(kept) + far**2 / wide)
    return Correction(since + round(middle), base + round(height), rate, doubt)


@dataclass(frozen=True)
class JobMachine:
    """A machine of a job.

    Attributes:
        name: Its host name; a number follows if several have the same.
        ranks: Its processes, by position in the job.
        line: The correction of its clock; None: it could not be aligned.
        beside: What is added then, in ns.
        collectives: Count of those by which it was aligned.
        why: Why it could not be aligned.
    """

    name: str
    ranks: tuple[int, ...]
    line: Correction | None
    beside: int = 0
    collectives: int = 0
    why: str = ""

    @property
    def shift(self) -> Correction:
        """What is done to its times."""
        return self.line or Correction(0, self.beside, 0.0, inf)


def align(digests: Sequence[Digest]) -> list[JobMachine]:
    """Align the machines of a job with the first rank's.

    Args:
        digests: Of the traces of its ranks, in order.
    """
    found: dict[str, list[int]] = {}
    for position, digest in enumerate(digests):
        found.setdefault(digest.boot or digest.host, []).append(position)
    names, machines = list[str](), list[JobMachine]()
    for ranks in found.values():
        host = digests[ranks[0]].host or "unknown machine"
        same = names.count(host)
        names.append(host)
        machines.append(JobMachine(f"{host} ({same + 1})" if same else host, tuple(ranks), None))
    if len(machines) == 1:
        return [replace(machines[0], line=UNCHANGED)]
    ends = [_ends([digests[rank] for rank in one.ranks]) for one in machines]
    machines[0] = replace(machines[0], line=UNCHANGED)
    aligned, waiting = [0], list(range(1, len(machines)))
    for known in aligned:  # It grows: some machines share no group with the first.
        by, moments = machines[known].line or UNCHANGED, ends[known][0]
        others = {key: by.moved(time) for key, time in moments.items()}
        for one in list(waiting):
            doubt = max(ends[known][1], ends[one][1]) + by.uncertainty
            machines[one] = _aligned(machines[one], ends[one][0], others, doubt, digests)
            if machines[one].line is not None:
                aligned.append(one)
                waiting.remove(one)
    first = min(digests[rank].begin for rank in machines[0].ranks)
    for one in waiting:
        begin = min(digests[rank].begin for rank in machines[one].ranks)
        machines[one] = replace(machines[one], beside=first - begin)
    return machines


def same_clock(digests: Sequence[Digest], machine: JobMachine, rank: int) -> int:
    """Nanoseconds to add to a rank's times so that ranks of one machine have one clock."""
    first = digests[machine.ranks[0]]
    return first.anchor - digests[rank].anchor if first.boot else 0


def _ends(digests: Iterable[Digest]) -> tuple[Moments, float]:
    """When collectives ended on a machine, and how far apart on its ranks, in ns."""
    first, least, most = None, dict[tuple[str, int], int](), dict[tuple[str, int], int]()
    for digest in digests:
        first = first or digest
        more = first.anchor - digest.anchor if first.boot else 0
        for group, moments in digest.moments.items():
            for number, time in moments.items():
                key = group, number
                least[key] = min(least.get(key, time + more), time + more)
                most[key] = max(most.get(key, time + more), time + more)
    apart = [most[key] - time for key, time in least.items() if most[key] != time]
    return least, median(apart) if apart else 0.0


def _aligned(
    machine: JobMachine, moments: Moments, others: Moments, doubt: float, digests: Sequence[Digest]
) -> JobMachine:
    """``machine`` with a line, or why it has none."""
    common = [key for key in moments if key in others]
    # What DDP waits for ends less exactly than a collective that the script waits for.
    exact = [key for key in common if key[0] != DDP_WAITS]
    chosen = exact if len(exact) >= MIN_COMMON else common
    pairs = [(moments[key], others[key]) for key in chosen]
    if len(pairs) < MIN_COMMON:
        if machine.why and not pairs:
            return machine
        return replace(machine, why=f"{len(pairs) or 'no'} collectives in common")
    begin = min(digests[rank].begin for rank in machine.ranks)
    line = fitted(pairs, begin, max(digests[rank].end for rank in machine.ranks))
    line = line._replace(uncertainty=line.uncertainty + doubt)
    if line.uncertainty > CERTAIN:
        return replace(machine, why=f"its collectives end {line.uncertainty / 1e6:,.1f} ms apart")
    return replace(machine, line=line, collectives=len(pairs))


def said(machines: Sequence[JobMachine]) -> list[str]:
    """What is known of the machines' clocks, in lines; none for one machine."""
    if len(machines) < 2:
        return []
    lines = []
    if aligned := [one for one in machines[1:] if one.line is not None]:
        worst = max(one.shift.uncertainty for one in aligned) / 1000
        least = min(one.collectives for one in aligned)
        lines.append(
            f"clocks of {len(aligned) + 1} machines aligned within {worst:,.0f} us, by {least:,} "
            "collectives or more"
        )
    lines += [
        f"{one.name} is laid beside, from its own beginning: its clock cannot be aligned "
        f"({one.why})"
        for one in machines[1:]
        if one.line is None
    ]
    return lines
