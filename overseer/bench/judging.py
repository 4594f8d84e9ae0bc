"""The verdict of a bench: the unit is the process, and a difference needs evidence.

A difference is called one only if its 95 % interval over pairs of processes lies wholly beyond the
threshold, in either direction. The control, the reference against itself, is judged by the same
rule: while it shows a difference, nothing else is concluded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..model.facts import change, changes
from ..model.intervals import beyond, of_processes, pairs_for, vetoed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from ..model.intervals import Change

REGRESSION, IMPROVEMENT, DIFFERENCE, EQUIVALENT, INCONCLUSIVE, UNMEASURED, MEASURED = (
    "regression", "improvement", "difference", "no difference", "inconclusive", "nothing measured",
    "measured",
)  # fmt: skip
#: Exit status of each verdict.
STATUS: Final = {
    REGRESSION: 1, IMPROVEMENT: 0, DIFFERENCE: 0, EQUIVALENT: 0, INCONCLUSIVE: 5, UNMEASURED: 6,
    MEASURED: 0,
}  # fmt: skip
#: Of the verdicts of several sides, the first of these is that of the bench.
_WORST = (UNMEASURED, REGRESSION, INCONCLUSIVE, DIFFERENCE, IMPROVEMENT, EQUIVALENT, MEASURED)
#: With more pairs than this, more pairs are no remedy.
MANY = 1000


class Verdict(NamedTuple):
    """What a bench says of a side.

    Attributes:
        verdict: One of the names above.
        why: One sentence for people.
        side: The side that is compared with the reference; empty for one side alone.
        over: ``pairs`` of processes, or ``processes`` that are not paired.
        n: The number of pairs, or of processes of the side.
        ratio: The side against the reference; of one side, None.
        interval: Its 95 % interval; of one side, that of its mean.
        mean: The mean of one side.
        more: About so many more pairs would decide; None if not known or more than ``MANY``.
        tells: The smallest threshold at which there would have been a verdict.
    """

    verdict: str
    why: str
    side: str = ""
    over: str = "pairs"
    n: int = 0
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    mean: float | None = None
    more: int | None = None
    tells: float | None = None

    def as_facts(self) -> dict[str, Any]:
        """The verdict as JSON; unknown ones are absent."""
        return {key: value for key, value in self._asdict().items() if value not in (None, "")}


def judged(found: Change, better: str, threshold: float, over: str = "pairs") -> Verdict:
    """The verdict on one side.

    Args:
        found: The side against the reference.
        better: ``up``, ``down``, or empty if neither is better.
        threshold: The smallest relative difference to call one.
        over: ``pairs`` of processes, or ``processes``.
    """
    ratio, interval, least = found.ratio, found.interval, percent(threshold)
    base = Verdict(INCONCLUSIVE, "", "", over, found.n, ratio, interval)
    what = "pairs" if over == "pairs" else "processes a side"
    if ratio is None or interval is None:
        if found.n < 2:
            return base._replace(
                why=f"there is no interval; at least two {what} are needed", more=9
            )
        return base._replace(why="the reference is 0: nothing is relative to it")
    said = f"{change(ratio)} ({changes(interval)})"
    if beyond(interval, threshold):
        good = (interval[0] > 1) == (better == "up")
        named = (IMPROVEMENT if good else REGRESSION) if better else DIFFERENCE
        return base._replace(verdict=named, why=said)
    if 1 - threshold <= interval[0] and interval[1] <= 1 + threshold:
        return base._replace(verdict=EQUIVALENT, why=f"{said}: no difference of more than {least}")
    more = pairs_for(found, threshold) or MANY + 1
    needs = f"about {more} more {what} needed" if more <= MANY else "it is at the threshold"
    tells = _resolution(interval)
    why = f"{said}: this machine cannot tell {least} now, {percent(tells)} it could; {needs}"
    return base._replace(why=why, more=more if more <= MANY else None, tells=tells)


def _resolution(interval: tuple[float, float]) -> float:
    """The smallest threshold that an interval of ratios does not exceed, rounded up."""
    return ceil(max(abs(end - 1) for end in interval))


def guarded(
    verdict: Verdict, found: Change, control: Change | None, against: Change | None,
    threshold: float,
) -> Verdict:  # fmt: skip
    """The verdict, unless the control speaks against it, see :func:`vetoed`.

    Args:
        verdict: The verdict on a side.
        found: The side against the reference.
        control: The control against the reference.
        against: The side against the control.
        threshold: The smallest difference to call one.
    """
    vetoes = vetoed(found, control, against, threshold)
    if not vetoes or control is None or control.interval is None or control.ratio is None:
        return verdict
    tells = _tells(found, control, against)
    reads = ""
    if verdict.ratio is not None and verdict.interval is not None:
        reads = f"{change(verdict.ratio)} ({changes(verdict.interval)}); "
    why = (
        f"{reads}the reference against itself: {change(control.ratio)} "
        f"({changes(control.interval)}). This machine cannot tell {percent(threshold)} now, "
        f"{percent(tells)} it could"
    )
    return verdict._replace(verdict=INCONCLUSIVE, why=why, more=None, tells=tells)


def _tells(found: Change, control: Change, against: Change | None) -> float:
    """The smallest threshold at which the control has no veto and there is a verdict."""
    intervals = [each for each in (control.interval, found.interval) if each is not None]
    tried = {_resolution(each) for each in intervals} | {ceil(abs((found.ratio or 1) - 1))}
    decides = (
        each for each in sorted(tried)
        if not vetoed(found, control, against, each)
        and judged(found, "", each).verdict != INCONCLUSIVE
    )  # fmt: skip
    return next(decides, max(tried))


def measured(values: Sequence[float], until: float | None) -> Verdict:
    """The verdict on one side alone: its mean over processes, with an interval."""
    found = of_processes(values)
    base = Verdict(MEASURED, "one process has no interval", "", "processes", len(values),
        mean=found.ratio, interval=found.interval)  # fmt: skip
    reach = relative(found)
    if reach is None:
        known = found.interval is not None
        return base._replace(why=f"over {len(values)} processes") if known else base
    wide = f"; not as narrow as {percent(until)}" if until and reach > until else ""
    return base._replace(why=f"± {percent(reach)} over {len(values)} processes{wide}")


def narrow(found: Change, until: float) -> bool:
    """Whether an interval is as narrow as asked for."""
    reach = relative(found)
    return reach is not None and reach <= until


def relative(found: Change) -> float | None:
    """Half the width of an interval, relative to its middle; None if not known."""
    if found.interval is None or not found.ratio:
        return None
    return (found.interval[1] - found.interval[0]) / 2 / abs(found.ratio)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict that decides the exit status."""
    return min(verdicts, key=lambda each: _WORST.index(each.verdict))


def status(verdict: Verdict, fail_on_difference: bool = False) -> int:
    """The exit status; with ``fail_on_difference`` any difference is 1."""
    if fail_on_difference and verdict.verdict in (IMPROVEMENT, DIFFERENCE):
        return 1
    return STATUS[verdict.verdict]


def percent(share: float) -> str:
    """A share as a percentage of up to two digits: ``1 %``, ``0.5 %``."""
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"


def ceil(share: float) -> float:
    """A share rounded up to one significant digit below 10 %, and to whole percentages above."""
    if share <= 0 or not math.isfinite(share):
        return share
    step = 10 ** math.floor(math.log10(share)) if share < 0.1 else 0.01
    return round(math.ceil(share / step - 1e-9) * step, 6)
