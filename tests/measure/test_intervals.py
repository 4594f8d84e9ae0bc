"""Intervals of a ratio hold the truth as often as they say."""

from __future__ import annotations

import math
from random import Random

import pytest

from overseer.measure.intervals import ratio_over_runs, ratio_within, student


def runs(random: Random, truth: float, count: int) -> list[float]:
    return [truth * math.exp(random.gauss(0, 0.1)) for _ in range(count)]


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (5, 3), (1, 4), (10, 10)])
def test_of_intervals_over_runs_one_in_twenty_misses_the_truth(sizes: tuple[int, int]) -> None:
    random, missed = Random(1), 0
    for _ in range(1000):
        found = ratio_over_runs(runs(random, 1.0, sizes[0]), runs(random, 1.3, sizes[1]))
        assert found is not None
        missed += not found[0] <= 1.3 <= found[1]
    assert missed <= 75


def test_repeats_that_are_alike_show_a_small_difference() -> None:
    found = ratio_over_runs([100, 101, 99], [110, 111, 109])
    assert found is not None
    assert 1.05 < found[0] < 1.10 < found[1] < 1.15


def test_runs_that_are_the_same_leave_no_doubt() -> None:
    assert ratio_over_runs([2.0, 2.0], [3.0, 3.0]) == pytest.approx((1.5, 1.5))


@pytest.mark.parametrize("sides", [([1.0], [2.0]), ([], [1.0, 2.0]), ([1.0, 0.0], [1.0, 2.0])])
def test_without_a_repeat_or_with_zeros_nothing_is_told(
    sides: tuple[list[float], list[float]],
) -> None:
    assert ratio_over_runs(*sides) is None


def test_students_quantiles_are_those_of_the_tables() -> None:
    found = [student(freedom) for freedom in (0.7, 1, 4.9, 20, 30, 1000)]
    assert found == pytest.approx([12.706, 12.706, 2.776, 2.086, 2.042, 1.962], abs=0.004)


def course(random: Random, mean: float, count: int = 100) -> list[float]:
    """A series in which neighbours are alike."""
    level, found = 0.0, []
    for _ in range(count):
        level = 0.7 * level + random.gauss(0, 0.02)
        found.append(mean * (1 + level))
    return found


def test_neighbours_that_are_alike_are_not_taken_for_evidence() -> None:
    random, missed = Random(2), 0
    for _ in range(100):
        found = ratio_within(course(random, 1.0), course(random, 1.0))
        assert found is not None
        missed += not found[0] <= 1 <= found[1]
    assert missed <= 16  # Drawing single steps would miss it every other time.


def test_a_difference_within_is_found_and_the_same_each_time() -> None:
    sides = course(Random(3), 1.0), course(Random(4), 1.2)
    found = ratio_within(*sides)
    assert found is not None
    assert 1.1 < found[0] < 1.2 < found[1] < 1.3
    assert ratio_within(*sides) == found


def test_a_course_of_a_few_parts_says_nothing() -> None:
    assert ratio_within([1.0] * 9, [1.0] * 100) is None
