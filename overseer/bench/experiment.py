"""Runs a bench: rounds of processes in turns, until the interval is narrow or a budget ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from ..clock import monotonic
from ..model.intervals import Change, of_pairs, of_processes
from . import judging, metric
from .judging import Verdict
from .machine import clocks, disturbed, state
from .record import Measured
from .sides import CONTROL, Side, order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .machine import State
    from .metric import Chosen, Process
    from .process import Ended

#: Processes of one side before its interval may end a bench.
FEWEST = 3
#: Rounds before an interval may end a bench early: fewer make it too narrow too often.
MIN_ROUNDS = 7
_NONE = "the first process has no finite"
#: The round of the process that only warms caches.
WARMING = 0


class Limits(NamedTuple):
    """When a bench ends.

    Attributes:
        runs: Rounds at most; repeated ones are not counted.
        until: Half the width of the interval, relative to its middle, that is narrow enough. A
            comparison does not end before it has a verdict.
        seconds: Time at most; a process that has begun is not ended.
    """

    runs: int
    until: float | None = None
    seconds: float | None = None


class Experiment:
    """A bench.

    Args:
        sides: What is compared; the first is the reference.
        limits: When it ends.
        threshold: The smallest difference to call one.
        named: The metric's name; empty for the default.
        better: ``up`` or ``down``, if that is not as the metric says.
        execute: Runs a process of a side, with its run directory's name.
        read: Reads what a metric is read from, of a process with that run directory.
        halfway: Called between the two halves of the rounds.
        clock: Monotonic seconds.
        look: Returns the state of the machine.

    Attributes:
        processes: Those that have ended.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        limits: Limits,
        threshold: float,
        named: str,
        execute: Callable[[Side, str], Ended],
        read: Callable[[str, float], Process],
        halfway: Callable[[], object] = bool,
        clock: Callable[[], float] = monotonic,
        look: Callable[[], State] = state,
        better: str = "",
    ) -> None:
        self.sides, self._limits, self._threshold = sides, limits, threshold
        self._named, self._better = named, better
        self._execute, self._read = execute, read
        self._halfway, self._clock, self._look = halfway, clock, look
        self.processes = list[Measured]()
        self._recorded: dict[str, Process] = {}
        self._began = clock()
        self._longest = 0.0

    def run(self) -> Iterator[Measured]:
        """Run all processes; yield each when it has ended.

        The first one only warms caches. After a round in which a side's first process failed, or
        a second one of it, nothing more is run.
        """
        first = self._process(self.sides[0], WARMING, 0, 0)
        yield first
        if self._named and self.value(first, self._named) is None and not self.sides[0].plain:
            return  # No process has it.
        rounds, repeated = self._limits.runs, list[int]()
        for number in range(1, rounds + 1):
            if self._ends(number):
                break
            if number == rounds // 2 + 1 and rounds > 1:
                self._halfway()
            yield from self._round(number)
        number = max((each.round for each in self.processes), default=0)
        for bad in self.to_repeat()[: max(1, rounds // 2)]:
            if self._failed() or self._late():
                break
            number += 1
            repeated.append(bad)
            yield from self._round(number, bad)

    def _round(self, number: int, repeats: int = 0) -> Iterator[Measured]:
        for place, side in enumerate(order(self.sides, repeats or number)):
            yield self._process(side, number, place, repeats)

    def _process(self, side: Side, number: int, place: int, repeats: int) -> Measured:
        run = f"{side.name}/{number:03}"
        started, before = datetime.now(UTC), self._look()
        ended = self._execute(side, run)
        after = self._look()
        process = self._read(run, ended.seconds)
        self._recorded[run] = process
        machine = {"before": before.as_facts(), "after": after.as_facts(), **clocks(process.facts)}
        done = Measured(
            side.name, number, place, run, started.isoformat(), round(ended.seconds, 4),
            ended.exit_status, None, tuple(disturbed(before, after, process.facts)), machine,
            repeats,
        )  # fmt: skip
        self.processes.append(done)
        self._longest = max(self._longest, ended.seconds)
        return done

    def _ends(self, number: int) -> bool:
        """Whether the bench is to end before this round."""
        if self._failed() or self._late():
            return True
        until = self._limits.until
        if until is None or number <= (MIN_ROUNDS if len(self.sides) > 1 else FEWEST):
            return False
        if len(self.sides) == 1:
            return judging.narrow(of_processes(self.values()), until)
        decided = all(each.verdict != judging.INCONCLUSIVE for each in self.verdicts())
        return decided and all(judging.narrow(self.change(each), until) for each in self.sides[1:])

    def _late(self) -> bool:
        spent, limit = self._clock() - self._began, self._limits.seconds
        each = len(self.sides) * self._longest
        return limit is not None and spent + each > limit

    def _failed(self) -> bool:
        """Whether the script fails: a side's first process, or two of a side."""
        for side in self.sides:
            own = [each for each in self.processes if each.side == side.name]
            if sum(each.failed for each in own) > 1 or (own and own[0].failed):
                return True
        return False

    def to_repeat(self) -> list[int]:
        """Rounds in which a process failed or was disturbed."""
        done = {each.repeats for each in self.processes}
        bad = {each.round for each in self.processes
            if (each.failed or each.disturbed) and not each.repeats}  # fmt: skip
        return sorted(bad - done - {WARMING})

    # Figures of what has been run so far

    @property
    def metric(self) -> Chosen:
        """The metric, with its unit."""
        counted = [self._recorded[each.run] for each in self.counted()]
        found = metric.chosen(self._named, counted) if self._named else metric.default(counted)
        return found._replace(better=self._better) if self._better else found

    def counted(self) -> list[Measured]:
        """Processes that count: no warm-up, none that failed, none whose round was repeated."""
        again = {each.repeats for each in self.processes} - {0}
        failed = {each.round for each in self.processes if each.failed}
        out = {WARMING, *again, *failed}
        return [each for each in self.processes if each.round not in out]

    def value(self, process: Measured, key: str = "") -> float | None:
        """The metric's value of a process."""
        return metric.value(key or self.metric.key, self._recorded[process.run])

    def values(self, side: str = "") -> list[float]:
        """The values of a side, the reference by default, of processes that count."""
        return list(self._by_round(side or self.sides[0].name).values())

    def _by_round(self, side: str, key: str = "") -> dict[int, float]:
        key = key or self.metric.key
        found = {each.round: self.value(each, key) for each in self.counted() if each.side == side}
        return {number: value for number, value in found.items() if value is not None}

    def change(self, side: Side, reference: str = "", key: str = "") -> Change:
        """A side against the reference, or another side, over the rounds that have both.

        Args:
            side: The side.
            reference: The name of another reference than the first side.
            key: Another metric than that of the bench.
        """
        before = self._by_round(reference or self.sides[0].name, key)
        after = self._by_round(side.name, key)
        shared = sorted(before.keys() & after.keys())
        return of_pairs([before[each] for each in shared], [after[each] for each in shared])

    @property
    def control(self) -> Change | None:
        """The reference against itself; None before the first control."""
        found = self.change(self.sides[0]._replace(name=CONTROL))
        return found if found.n else None

    def verdicts(self) -> list[Verdict]:
        """A verdict on each side but the reference; of one side alone, on itself."""
        lacks = self._lacking()
        if lacks:
            return [Verdict(judging.UNMEASURED, lacks)]
        if len(self.sides) == 1:
            return [judging.measured(self.values(), self._limits.until)]
        better, control = self.metric.better, self.control
        return [self._verdict(side, better, control) for side in self.sides[1:]]

    def _verdict(self, side: Side, better: str, control: Change | None) -> Verdict:
        change = self.change(side)
        found = judging.judged(change, better, self._threshold)
        against = self.change(side, CONTROL) if control else None
        guarded = judging.guarded(found, change, control, against, self._threshold)
        return guarded._replace(side=side.name)

    def _lacking(self) -> str:
        """Why nothing was measured; empty if something was."""
        if self._failed():
            failed = [each for each in self.processes if each.failed]
            return f"{failed[-1].run} ended with exit status {failed[-1].exit_status}"
        counted, chosen = self.counted(), self.metric
        if not counted:
            first = self.processes[:1]
            lacks = [e for e in first if self._named and self.value(e, self._named) is None]
            return f"{_NONE} {self._named}" if lacks else "no round was completed"
        for side in self.sides:
            own = [each for each in counted if each.side == side.name]
            lack = [each for each in own if self.value(each, chosen.key) is None]
            if lack or not own:
                which = f"{len(lack)} of {len(own)} processes of {side.name} have"
                none = f"{which} no finite {chosen.key}"
                return none if own else f"{side.name} has no process"
        units = {metric.chosen(chosen.key, [self._recorded[each.run]]).unit for each in counted}
        if len(units) > 1:
            return f"the sides count {chosen.key} in other units: {', '.join(sorted(units))}"
        return ""

    def known(self) -> list[str]:
        """The metrics of the last process."""
        return metric.names(self._recorded[self.processes[-1].run]) if self.processes else []

    def processes_of(self, side: str) -> list[Process]:
        """What was recorded of a side's processes that count."""
        return [self._recorded[each.run] for each in self.counted() if each.side == side]
