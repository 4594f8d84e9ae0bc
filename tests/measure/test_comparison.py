"""Runs compared: when a difference is one, and what is said when it is none."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from overseer.measure.comparison import FASTER, NONE, SLOWER, Comparison, compare


def run(
    rate: float, *, steady: bool = True, seed: int = 0, items: int = 32, **more: Any
) -> dict[str, Any]:
    """A ``run.json`` of so many items a step; its steps vary by 2 %."""
    random, step = Random(seed), items / rate
    means = [step * (1 + random.gauss(0, 0.02)) for _ in range(100)]
    task = {
        "steps": 500,
        "items": 16000,
        "units": "items",
        "rate": {"wall": rate * 0.9, **({"steady": rate} if steady else {})},
        "steady": {"verdict": "steady" if steady else "never steady"},
        "step_seconds": {"median": step, "q1": step * 0.99, "q3": step * 1.01,
            "course": {"steps": 5, "means": means}},
        "loading": {"share": 0.1},
        "loss": {"last": 0.5},
    }  # fmt: skip
    facts = {"ended": "2026-01-01T00:00:00Z", "exit_status": 0, "seconds": 16.0}
    return {**facts, "tasks": {"train": task}, **more}


def verdict(found: Comparison) -> tuple[str, str | None]:
    (only,) = found.verdicts
    return only.verdict, only.over


def test_a_difference_beyond_threshold_and_interval_is_called_one() -> None:
    assert verdict(compare([run(1000)], [run(1200, seed=1)])) == (FASTER, "steps")
    assert verdict(compare([run(1000)], [run(800, seed=1)])) == (SLOWER, "steps")
    found = compare([run(1000), run(1010)], [run(800), run(805)])
    assert verdict(found) == (SLOWER, "runs")
    assert found.verdicts[0].ratio == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize("items", [8, 64, 128])
def test_steps_may_have_more_items_on_one_side(items: int) -> None:
    faster = compare([run(1000)], [run(1480, seed=1, items=items)]).verdicts[0]
    assert (faster.verdict, faster.over) == (FASTER, "steps")
    assert faster.interval is not None
    assert faster.interval == pytest.approx((1.48, 1.48), rel=0.02)
    assert faster.interval[0] < 1.48 < faster.interval[1]


def test_a_difference_below_the_threshold_is_none() -> None:
    sides = [run(1000)], [run(1040, seed=1)]
    assert verdict(compare(*sides)) == (NONE, "steps")
    assert "less than 5 %" in compare(*sides).verdicts[0].why
    assert verdict(compare(*sides, threshold=0.01)) == (FASTER, "steps")


def test_slower_and_faster_have_the_same_threshold() -> None:
    fast, slow = [run(1060)], [run(1000, seed=1)]
    assert verdict(compare(slow, fast)) == (FASTER, "steps")
    assert verdict(compare(fast, slow)) == (SLOWER, "steps")


def test_repeats_that_scatter_show_no_difference() -> None:
    found = compare([run(1000), run(1300)], [run(1100), run(1600)])
    assert verdict(found) == (NONE, "runs")
    assert "holds no difference" in found.verdicts[0].why


def test_single_runs_that_never_settled_show_no_difference() -> None:
    found = compare([run(1000, steady=False)], [run(2000)])
    assert verdict(found) == (NONE, None)
    assert found.verdicts[0].why == "one run a side, and never steady"


def test_repeats_that_never_settled_are_compared_by_their_overall_rate() -> None:
    sides = [[run(rate, steady=False) for rate in rates] for rates in ((10, 10.1), (20, 20.1))]
    found = compare(*sides)
    assert verdict(found) == (FASTER, "runs")
    assert found.verdicts[0].why == "overall rate"


def test_what_counts_different_things_is_not_compared() -> None:
    other = run(2000)
    other["tasks"]["train"]["units"] = "tokens"
    found = compare([run(1000)], [other])
    assert found.verdicts[0].why == "they count different things"
    assert found.verdicts[0].verdict == NONE


def test_figures_are_those_that_both_sides_have() -> None:
    other = run(1000, steady=False)
    del other["tasks"]["train"]["loss"]
    found = {row.figure.name: row for row in compare([run(1000)], [other]).rows}
    assert list(found) == ["overall", "step", "loading", "run"]
    assert found["loading"].ratio is None
    assert found["step"].spread[0] == pytest.approx((0.03168, 0.03232))


def test_what_speaks_against_the_figures_is_said() -> None:
    other = run(
        1000,
        exit_status=-9,
        trace={"path": "t"},
        world_size=2,
        host={"cpu": {"mean": 90.0, "process": {"mean": 40.0}}},
        devices=[{"throttled": {"power cap": 0.5}}],
    )
    del other["ended"]
    other["tasks"]["train"]["steps"] = 400
    other["tasks"]["eval"] = other["tasks"]["train"]
    assert compare([run(1000)], [other]).notes == [
        "B did not come to its end",
        "B ended with exit status -9",
        "B: other programs used 50 % of the processors",
        "B: its GPU was throttled (power cap)",
        "only one side was traced",
        "figures are of rank 0, of 1 and 2 ranks",
        "train made different numbers of steps: losses are not of the same moment",
        "not every run has a task eval",
    ]


@pytest.mark.parametrize("facts", [{}, {"tasks": 3}, {"tasks": {"train": None}, "devices": True}])
def test_a_record_of_any_kind_can_be_compared(facts: dict[str, Any]) -> None:
    found = compare([facts], [run(1000)])
    assert (found.rows, found.verdicts) == ([], [])
