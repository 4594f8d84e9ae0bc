"""Runs compared: when a difference is one, and what is said when it is none."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from overseer.model.comparability import ComparedSide
from overseer.model.comparison import (
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    THRESHOLD,
    UNDECIDED,
    Against,
    Comparison,
)
from overseer.model.comparison import compare as compare_sides

Facts = dict[str, Any]


def run(rate: float, *, steady: bool = True, items: int = 32, **more: Any) -> Facts:
    """A ``run.json`` of so many items a step."""
    step = items / rate
    task = {
        "steps": 500,
        "items": 16000,
        "units": "items",
        "rate": {"wall": rate * 0.9, **({"steady": rate} if steady else {})},
        "steady": {"verdict": "steady" if steady else "never steady"},
        "step_seconds": {"median": step, "q1": step * 0.99, "q3": step * 1.01},
        "loading": {"share": 0.1},
        "loss": {"last": 0.5},
    }  # fmt: skip
    facts = {"ended": "2026-01-01T00:00:00Z", "exit_status": 0, "seconds": 16.0}
    return {**facts, "tasks": {"train": task}, **more}


def runs(rates: list[float], minutes: list[int], **more: Any) -> list[Facts]:
    """Runs of one side, each begun at a minute of one hour."""
    started = [f"2026-01-01T10:{minute:02}:00.000000Z" for minute in minutes]
    return [run(r, started=s, **more) for r, s in zip(rates, started, strict=True)]


def compare(*sides: list[Facts], **options: Any) -> Comparison:
    return compare_sides(
        [ComparedSide(n, side) for n, side in zip("ABC", sides, strict=False)], **options
    )


def verdict(found: Comparison) -> tuple[str, str | None]:
    (only,) = found.verdicts
    return only.verdict, only.over


#: Rates of both sides, the verdict, and how the reason ends.
VERDICTS = [
    ([1000, 1010], [800, 805], SLOWER, "steady rate"),
    ([1000, 1001, 1000], [1030, 1031, 1030], FASTER, "steady rate"),
    ([1000, 1001, 1000], [1002, 1001, 1000], NO_DIFFERENCE, "no difference of more than 1 %"),
    ([1000, 1020], [1015, 1030], UNDECIDED, "more runs a side needed"),
    ([1000], [1200, 1201], FASTER, "steady rate"),
]


@pytest.mark.parametrize(("a", "b", "found", "why"), VERDICTS)
def test_an_interval_beyond_the_threshold_is_a_difference(
    a: list[float], b: list[float], found: str, why: str
) -> None:
    (only,) = compare([run(rate) for rate in a], [run(rate) for rate in b]).verdicts
    assert (only.side, only.verdict, only.over) == ("B", found, "runs")
    assert only.ratio == pytest.approx(b[0] / a[0], rel=0.02)
    assert only.why.endswith(why)


def test_one_run_a_side_has_numbers_and_no_verdict() -> None:
    found = compare([run(1000)], [run(2000)])
    assert found.verdicts == found.notes == []
    steady = found.rows[0]
    assert steady.values == [[1000], [2000]]
    assert steady.against == [None, Against(pytest.approx(2))]


def test_each_side_is_compared_with_the_reference() -> None:
    rates = ([1000, 1001], [900, 901], [1100, 1101])
    found = compare(*([run(rate) for rate in side] for side in rates), reference=1)
    assert [(v.side, v.verdict) for v in found.verdicts] == [("A", FASTER), ("C", FASTER)]
    assert [each and round(each.ratio or 0, 2) for each in found.rows[0].against] == [
        1.11, None, 1.22,
    ]  # fmt: skip
    assert [round(verdict.ratio or 0, 2) for verdict in found.verdicts] == [1.11, 1.22]


def test_the_threshold_can_be_given() -> None:
    sides = [run(1000), run(1001)], [run(1030), run(1031)]
    assert (compare(*sides).threshold, verdict(compare(*sides))) == (THRESHOLD, (FASTER, "runs"))
    assert verdict(compare(*sides, threshold=0.05)) == (NO_DIFFERENCE, "runs")


def test_runs_of_a_bench_are_paired_by_round() -> None:
    """The machine becomes faster by 20 %; B is 3 % faster than A, and round 2 of B failed."""
    a = ComparedSide("A", [run(rate) for rate in (1000, 1070, 1140, 1200)], "bench", [1, 2, 3, 4])
    b = ComparedSide("B", [run(rate) for rate in (1235, 1031, 1175)], "bench", [4, 1, 3])
    found = compare_sides([a, b])
    assert verdict(found) == (FASTER, "pairs")
    assert found.verdicts[0].interval == pytest.approx((1.028, 1.034), abs=0.003)
    assert found.notes == []
    other = compare_sides([a, b._replace(bench="another")])
    assert verdict(other) == (UNDECIDED, "runs")
    assert other.notes[0].startswith("B: not paired with A")


def test_runs_made_in_turns_are_compared_in_pairs() -> None:
    """The machine becomes faster by 20 % an hour; B is 3 % faster than A."""
    a = runs([1000, 1100, 1200, 1300], [0, 10, 20, 30])
    b = runs([1031, 1132, 1237, 1338], [5, 15, 25, 35])
    found = compare([*reversed(a)], b)  # Whichever order they are named in.
    assert verdict(found) == (FASTER, "pairs")
    assert found.verdicts[0].interval == pytest.approx((1.029, 1.032), abs=0.001)
    assert found.notes == []
    a, b = runs([1000, 1001], [0, 15]), runs([1100, 1101], [5, 10])
    assert compare(a, b).verdicts[0].over == "pairs"  # Turns may begin with either side.


def test_runs_that_took_no_turns_are_not_paired() -> None:
    found = compare(runs([1000, 1100, 1200], [0, 5, 10]), runs([1030, 1130, 1235], [15, 20, 25]))
    assert verdict(found) == (UNDECIDED, "runs")
    (note,) = found.notes
    assert "a change of the machine between their runs looks like a difference" in note


def test_of_identical_programs_hardly_any_are_called_different_and_3_percent_is_found() -> None:
    random = Random(1)

    def judged(truth: float) -> str:
        drift = [math.exp(0.02 * i / 10) for i in range(10)]
        a = [1000 * d * math.exp(random.gauss(0, 0.01)) for d in drift]
        b = [1000 * d * truth * math.exp(random.gauss(0, 0.01)) for d in drift]
        sides = runs(a, [*range(0, 40, 4)]), runs(b, [*range(2, 42, 4)])
        return compare(*sides).verdicts[0].verdict

    assert sum(judged(1.0) in (FASTER, SLOWER) for _ in range(100)) == 0
    assert sum(judged(1.03) == FASTER for _ in range(100)) >= 90


def test_unpaired_runs_of_identical_programs_are_hardly_ever_called_different() -> None:
    random = Random(2)

    def judged(truth: float) -> str:
        a, b = ([1000 * t * math.exp(random.gauss(0, 0.01)) for _ in range(10)] for t in (1, truth))
        return compare([*map(run, a)], [*map(run, b)]).verdicts[0].verdict

    assert sum(judged(1.0) in (FASTER, SLOWER) for _ in range(200)) <= 1
    assert sum(judged(1.03) == FASTER for _ in range(100)) >= 90


def test_without_a_steady_rate_repeats_are_compared_by_their_overall_rate() -> None:
    sides = [[run(rate, steady=False) for rate in rates] for rates in ((10, 10.1), (20, 20.1))]
    (repeats,) = compare(*sides).verdicts
    assert (repeats.verdict, repeats.over, repeats.why) == (FASTER, "runs", "overall rate")


def test_runs_that_count_different_things_are_not_compared() -> None:
    other = run(2000)
    other["tasks"]["train"]["units"] = "tokens"
    found = compare([run(1000)], [other, other]).verdicts[0]
    assert (found.verdict, found.why) == (UNDECIDED, "their units differ")


def test_figures_are_those_that_all_sides_have() -> None:
    other = run(1000, steady=False)
    del other["tasks"]["train"]["loss"]
    found = {row.figure.metric.name: row for row in compare([run(1000)], [other]).rows}
    assert list(found) == ["overall", "step", "loading", "run"]
    assert found["loading"].against == [None, Against()]
    assert found["step"].spreads[0] == pytest.approx((0.03168, 0.03232))


def test_reasons_to_doubt_the_figures_are_listed() -> None:
    cpu = {"mean": 90.0, "process": {"mean": 40.0}}
    other = run(1000, exit_status=-9, trace={"path": "t"}, world_size=2, host={"cpu": cpu},
                devices=[{"throttled": {"power cap": 0.5}}])  # fmt: skip
    del other["ended"]
    other["tasks"]["train"] |= {
        "steps": 400,
        "loss": {"not_finite": 2},
        "rate": {"profiled": 20, "wall": 900},
    }
    other["tasks"]["eval"] = {"steps": 3}
    assert compare([run(1000)], [other]).notes == [
        "B: did not finish",
        "B: ended with signal 9",
        "B: other programs used 50 % of the processors",
        "B: steps of train were profiled, which makes them slower",
        "B: losses of train were NaN or infinite",
        "B: GPUs were throttled (power cap)",
        "B: traced, the others were not",
        "ranks: 1 in A, 2 in B; rates are of whole jobs",
        "train made different numbers of steps: last losses are not comparable",
        "items per step of train: 32 in A, 40 in B; times of steps are not comparable",
        "some runs have no task eval",
    ]


@pytest.mark.parametrize("facts", [{}, {"tasks": 3}, {"tasks": {"train": None}, "devices": True}])
def test_a_record_of_any_kind_can_be_compared(facts: Facts) -> None:
    found = compare([facts], [run(1000)])
    assert (found.rows, found.verdicts) == ([], [])
