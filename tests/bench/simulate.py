"""Simulated processes: their values vary between processes and in them, and the machine drifts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from random import Random

from overseer.bench import judging
from overseer.bench.experiment import MIN_ROUNDS, Experiment, Limits
from overseer.bench.machine import State
from overseer.bench.metric import Process
from overseer.bench.process import Ended
from overseer.bench.sides import CONTROL, Side, order
from overseer.model.intervals import Change, of_pairs

SIDES = [Side("A", "old", ("main.py",), "python"), Side("B", "new", ("main.py",), "python")]
KEY = "train.rate.steady"


class Machine:
    """Executes processes without running any.

    Args:
        seed: Of the noise.
        effects: How many times as long a side's steps take.
        between: Standard deviation between processes.
        within: Standard deviation of one of 100 steps.
        drift: How much slower the machine is at the end of some 25 processes.
        status: Exit status by run.
        disturbs: Processes during which other programs are busy.
    """

    def __init__(
        self, seed: int, effects: dict[str, float], between: float = 0.01, within: float = 0.03,
        drift: float = 0.02, status: dict[str, int] | None = None,
        disturbs: Container[int] = (),
    ) -> None:  # fmt: skip
        self._random, self._effects = Random(seed), effects
        self._between, self._within, self._drift = between, within, drift
        self._status, self._disturbs = status or {}, disturbs
        self._seconds, self._others = list[float](), 0.0
        self.ran, self.rates = list[str](), dict[str, float]()

    def execute(self, side: Side, run: str) -> Ended:
        """One process of a second."""
        slower = (1 + self._drift * len(self.ran) / 25) * self._effects.get(side.name, 1.0)
        slower *= 1 + self._random.gauss(0, self._between)
        slower *= 1 + self._random.gauss(0, self._within / 10)  # The mean of 100 steps.
        self._others += 9.0 * (len(self.ran) in self._disturbs)
        self.ran.append(run)
        self._seconds.append(slower)
        self.rates[run] = 1000 / slower
        return Ended(slower, self._status.get(run, 0))

    def read(self, run: str, seconds: float) -> Process:
        """What voir records of it."""
        task = {"steps": 100, "items": 3200, "units": "items", "rate": {"steady": self.rates[run]}}
        return Process({"tasks": {"train": task}}, seconds, lambda key: [])

    def bench(
        self, rounds: int = 10, until: float | None = None, threshold: float = 0.01,
        sides: list[Side] = SIDES, key: str = KEY,
    ) -> Experiment:  # fmt: skip
        """Run a whole bench."""
        found = self.experiment(rounds, until, threshold, sides, key)
        for _ in found.run():
            pass
        return found

    def experiment(
        self, rounds: int = 10, until: float | None = None, threshold: float = 0.01,
        sides: list[Side] = SIDES, key: str = KEY, halfway: Callable[[], object] = bool,
    ) -> Experiment:  # fmt: skip
        """A bench that has not begun."""
        return Experiment(sides, Limits(rounds, until), threshold, key, self.execute, self.read,
            halfway, look=self.look)  # fmt: skip

    def look(self) -> State:
        """The state of the machine, of which a process uses one processor."""
        seconds = sum(self._seconds)
        return State(seconds, seconds, seconds + self._others, seconds, 0.0)


def skewed(by: float) -> dict[str, float]:
    """Effects of a machine on which all but the first copy are slower by ``by``."""
    return {"B": 1 + by, CONTROL: 1 + by}


def verdicts(effects: dict[str, float], many: int, until: float | None = None) -> Counter[str]:
    """How often each verdict is reached in benches of ten pairs, without a harness around them."""
    return Counter(_verdict(seed, effects, until) for seed in range(many))


def _verdict(seed: int, effects: dict[str, float], until: float | None, at: float = 0.01) -> str:
    machine, rates = Machine(seed, effects), dict[tuple[str, int], float]()
    for number in range(1, 11):
        for side in order(SIDES, number):
            run = f"{side.name}/{number:03}"
            machine.execute(side, run)
            rates[side.name, number] = machine.rates[run]
        if number < (MIN_ROUNDS if until else 10):
            continue
        change, control, against = (
            _change(rates, *each) for each in (("A", "B"), ("A", CONTROL), (CONTROL, "B"))
        )
        found = judging.guarded(judging.judged(change, "up", at), change, control, against, at)
        decided = found.verdict != judging.INCONCLUSIVE
        if until and decided and judging.narrow(change, until):
            break
    return found.verdict


def _change(rates: dict[tuple[str, int], float], before: str, after: str) -> Change:
    rounds = [number for side, number in rates if side == after and (before, number) in rates]
    return of_pairs(
        [rates[before, each] for each in rounds], [rates[after, each] for each in rounds]
    )
