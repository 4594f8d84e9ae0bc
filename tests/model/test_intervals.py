"""Intervals of a ratio hold the truth as often as they say."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from overseer.model.intervals import of_pairs, of_unpaired, student


def runs(random: Random, truth: float, count: int) -> list[float]:
    return [truth * math.exp(random.gauss(0, 0.1)) for _ in range(count)]


SIZES = [(2, 2), (3, 3), (5, 3), (1, 4), (10, 10)]
COMPARED = [(of_unpaired, *sizes, 0.0, 0) for sizes in SIZES]
COMPARED += [(of_pairs, n, n, 0.3, 30) for n in (2, 5, 10)]


@pytest.mark.parametrize(("interval", "first", "second", "drift", "least"), COMPARED)
def test_one_interval_in_twenty_misses_the_truth_and_the_machine_may_drift_under_pairs(
    interval: Any, first: int, second: int, drift: float, least: int
) -> None:
    random, missed = Random(1), 0
    for _ in range(1000):
        sides = (runs(random, truth, n) for truth, n in ((1.0, first), (1.3, second)))
        low, high = interval(
            *([r * math.exp(drift * i) for i, r in enumerate(s)] for s in sides)
        ).interval
        missed += not low <= 1.3 <= high
    assert least <= missed <= 75


def test_the_interval_of_pairs_is_that_of_the_paired_t_test() -> None:
    """Student's own data (1908): hours of sleep that two drugs gave to ten patients."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = of_pairs([*map(math.exp, first)], [*map(math.exp, second)]).interval
    assert found is not None
    assert [*map(math.log, found)] == pytest.approx([0.7001, 2.4599], abs=1e-3)


def test_the_interval_over_runs_is_that_of_welchs_test() -> None:
    found = of_unpaired([*map(math.exp, (1, 2, 3, 4))], [*map(math.exp, (2, 4, 9))]).interval
    assert found is not None
    # The difference 2.5, its error 2.179 and 2.39 degrees of freedom, taken for 2.
    assert [*map(math.log, found)] == pytest.approx([2.5 - 9.374, 2.5 + 9.374], abs=0.01)


def test_runs_that_are_the_same_leave_no_doubt() -> None:
    for interval in (of_unpaired, of_pairs):
        assert interval([2.0, 2.0], [3.0, 3.0]).interval == pytest.approx((1.5, 1.5))


@pytest.mark.parametrize("interval", [of_pairs, of_unpaired])
def test_without_a_repeat_there_is_a_ratio_and_no_interval(interval: Any) -> None:
    assert interval([1.0], [2.0])[:2] == (pytest.approx(2), None)
    assert interval([], [])[:2] == (None, None)


def test_values_that_are_not_above_0_are_compared_by_their_differences() -> None:
    for interval in (of_pairs, of_unpaired):
        found = interval([2.0, 0.0, 4.0], [3.0, 1.0, 5.0])
        assert found.ratio == pytest.approx(1.5)
        assert interval([0.0, 0.0], [1.0, 2.0])[:2] == (None, None)


def test_students_quantiles_are_those_of_the_tables() -> None:
    found = [student(freedom) for freedom in (0.7, 1, 4.9, 20, 30, 1000)]
    assert found == pytest.approx([12.706, 12.706, 2.776, 2.086, 2.042, 1.962], abs=0.004)
