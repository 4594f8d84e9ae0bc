"""Runs compared: when a difference is one, and what is said when it is none."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from overseer.model.comparison import (
    FASTER,
    NO_DIFFERENCE,
    SINGLE_THRESHOLD,
    SLOWER,
    THRESHOLD,
    Comparison,
    compare,
)

Facts = dict[str, Any]


def run(rate: float, *, steady: bool = True, seed: int = 0, items: int = 32, **more: Any) -> Facts:
    """A ``run.json`` of so many items a step; its steps vary by 2 %."""
    random, step = Random(seed), items / rate
    task = {
        "steps": 500,
        "items": 16000,
        "units": "items",
        "rate": {"wall": rate * 0.9, **({"steady": rate} if steady else {})},
        "steady": {"verdict": "steady" if steady else "never steady"},
        "step_seconds": {"median": step, "q1": step * 0.99, "q3": step * 1.01,
            "course": {"steps": 5, "means": [step * random.gauss(1, 0.02) for _ in range(100)]}},
        "loading": {"share": 0.1},
        "loss": {"last": 0.5},
    }  # fmt: skip
    facts = {"ended": "2026-01-01T00:00:00Z", "exit_status": 0, "seconds": 16.0}
    return {**facts, "tasks": {"train": task}, **more}


def runs(rates: list[float], minutes: list[int], **more: Any) -> list[Facts]:
    """Runs of one side, each begun at a minute of one hour."""
    started = [f"2026-01-01T10:{minute:02}:00.000000Z" for minute in minutes]
    return [run(r, started=s, **more) for r, s in zip(rates, started, strict=True)]


def verdict(found: Comparison) -> tuple[str, str | None]:
    (only,) = found.verdicts
    return only.verdict, only.over


#: Rates of both sides, the verdict, over what, and how the reason ends.
VERDICTS = [
    ([1000], [1200], FASTER, "steps", "steady rate"),
    ([1000], [800], SLOWER, "steps", "steady rate"),
    ([1000, 1010], [800, 805], SLOWER, "runs", "steady rate"),
    ([1000], [1030], NO_DIFFERENCE, "steps", "less than 5 %"),
    ([1000], [1051], NO_DIFFERENCE, "steps", "may be under 5 %"),
    ([1000], [1070], FASTER, "steps", "steady rate"),  # Slower has the same threshold.
    ([1070], [1000], SLOWER, "steps", "steady rate"),
]


@pytest.mark.parametrize(("a", "b", "found", "over", "why"), VERDICTS)
def test_an_interval_beyond_the_threshold_is_a_difference(
    a: list[float], b: list[float], found: str, over: str, why: str
) -> None:
    (only,) = compare([run(rate) for rate in a], [run(rate, seed=1) for rate in b]).verdicts
    assert (only.verdict, only.over) == (found, over)
    assert only.ratio == pytest.approx(b[0] / a[0], rel=0.01)
    assert only.why.endswith(why)


@pytest.mark.parametrize("items", [8, 128])
def test_steps_may_have_more_items_on_one_side(items: int) -> None:
    faster = compare([run(1000)], [run(1480, seed=1, items=items)]).verdicts[0]
    assert (faster.verdict, faster.over) == (FASTER, "steps")
    assert faster.interval == pytest.approx((1.48, 1.48), rel=0.02)


def test_repeats_have_a_lower_threshold_than_single_runs_and_it_can_be_given() -> None:
    assert compare([run(1000)], [run(1000)]).threshold == SINGLE_THRESHOLD
    assert compare([run(1000)] * 2, [run(1000)]).threshold == THRESHOLD
    lower = compare([run(1000)], [run(1030, seed=1)], threshold=0.01)
    assert verdict(lower) == (FASTER, "steps")


def test_runs_made_in_turns_are_compared_in_pairs() -> None:
    """The machine becomes faster by 20 % an hour; B is 3 % faster than A."""
    a = runs([1000, 1100, 1200, 1300], [0, 10, 20, 30])
    b = runs([1031, 1132, 1237, 1338], [5, 15, 25, 35])
    found = compare(list(reversed(a)), b)  # Whichever order they are named in.
    assert verdict(found) == (FASTER, "pairs")
    assert found.verdicts[0].interval == pytest.approx((1.029, 1.032), abs=0.001)
    assert found.notes == []
    a, b = runs([1000, 1001], [0, 15]), runs([1100, 1101], [5, 10])
    assert compare(a, b).verdicts[0].over == "pairs"  # Turns may begin with either side.


def test_runs_that_took_no_turns_are_not_paired() -> None:
    found = compare(runs([1000, 1100, 1200], [0, 5, 10]), runs([1030, 1130, 1235], [15, 20, 25]))
    assert verdict(found) == (NO_DIFFERENCE, "runs")
    assert found.verdicts[0].why.endswith("the interval includes zero")
    said = "the runs did not alternate: other changes over time look like a difference"
    assert found.notes == [said]


def test_of_identical_programs_hardly_any_are_called_different_and_3_percent_is_found() -> None:
    random = Random(1)

    def judged(truth: float) -> str:
        drift = [math.exp(0.02 * i / 10) for i in range(10)]
        a = [1000 * d * math.exp(random.gauss(0, 0.01)) for d in drift]
        b = [1000 * d * truth * math.exp(random.gauss(0, 0.01)) for d in drift]
        sides = runs(a, [*range(0, 40, 4)]), runs(b, [*range(2, 42, 4)])
        return compare(*sides).verdicts[0].verdict

    assert sum(judged(1.0) != NO_DIFFERENCE for _ in range(100)) == 0
    assert sum(judged(1.03) == FASTER for _ in range(100)) >= 90


def test_without_a_steady_rate_repeats_are_compared_by_their_overall_rate() -> None:
    (single,) = compare([run(1000, steady=False)], [run(2000)]).verdicts
    assert (single.verdict, single.over) == (NO_DIFFERENCE, None)
    assert single.why == "one run per side, and never steady"
    sides = [[run(rate, steady=False) for rate in rates] for rates in ((10, 10.1), (20, 20.1))]
    (repeats,) = compare(*sides).verdicts
    assert (repeats.verdict, repeats.over, repeats.why) == (FASTER, "runs", "overall rate")


def test_runs_that_count_different_things_are_not_compared() -> None:
    other = run(2000)
    other["tasks"]["train"]["units"] = "tokens"
    found = compare([run(1000)], [other]).verdicts[0]
    assert (found.verdict, found.why) == (NO_DIFFERENCE, "their units differ")


def test_figures_are_those_that_both_sides_have() -> None:
    other = run(1000, steady=False)
    del other["tasks"]["train"]["loss"]
    found = {row.figure.metric.name: row for row in compare([run(1000)], [other]).rows}
    assert list(found) == ["overall", "step", "loading", "run"]
    assert found["loading"].ratio is None
    assert found["step"].spread[0] == pytest.approx((0.03168, 0.03232))


def test_reasons_to_doubt_the_figures_are_listed() -> None:
    cpu = {"mean": 90.0, "process": {"mean": 40.0}}
    other = run(1000, exit_status=-9, trace={"path": "t"}, world_size=2, host={"cpu": cpu},
                devices=[{"throttled": {"power cap": 0.5}}])  # fmt: skip
    del other["ended"]
    other["tasks"]["train"] |= {"steps": 400, "rate": {"profiled": 20, "wall": 900}}
    other["tasks"]["eval"] = {"steps": 3}
    assert compare([run(1000)], [other]).notes == [
        "B did not finish",
        "B ended with signal 9",
        "B: other programs used 50 % of the processors",
        "B: steps of train were profiled, which makes them slower",
        "B: its GPU was throttled (power cap)",
        "only one side was traced",
        "ranks: 1 in A, 2 in B; rates are of whole jobs",
        "train made different numbers of steps: last losses are not comparable",
        "some runs have no task eval",
    ]


@pytest.mark.parametrize("facts", [{}, {"tasks": 3}, {"tasks": {"train": None}, "devices": True}])
def test_a_record_of_any_kind_can_be_compared(facts: Facts) -> None:
    found = compare([facts], [run(1000)])
    assert (found.rows, found.verdicts) == ([], [])
