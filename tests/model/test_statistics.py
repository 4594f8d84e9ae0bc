"""Quartiles are exact, samples are fair, and noise and outliers are separated from change."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.model.changepoints import changepoints
from overseer.model.noise import bounded_sum, clipped, noise
from overseer.model.statistics import Longest, Sample, quantile, quartiles

FINITE = st.floats(-1e9, 1e9, allow_nan=False)


@given(st.lists(FINITE, min_size=2, max_size=50))
def test_quantiles_are_those_of_the_standard_library(values: list[float]) -> None:
    expected = statistics.quantiles(values, n=4, method="inclusive")
    assert list(quartiles(values)) == expected
    found = [quantile(sorted(values), q) for q in (0.25, 0.5, 0.75)]
    assert found == pytest.approx(expected)


def test_one_value_is_all_of_its_quartiles() -> None:
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)


def test_the_median_of_a_sample_is_that_of_a_million_values_nearly() -> None:
    sample = Sample()
    for number in range(1_000_000):
        sample.add(number, number)
    kept = [value for (value,) in sample.since(0)]
    assert len(kept) == 2048
    assert quartiles(kept)[1] == pytest.approx(500_000, abs=55_000)  # Five standard errors.
    assert sum(value >= 900_000 for value in kept) == pytest.approx(205, abs=70)


def test_a_sample_knows_which_values_came_late() -> None:
    sample = Sample()
    for number in range(5):
        sample.add(number, 2 * number, -number)
    assert sample.since(3) == [(6, -3), (8, -4)]


@given(st.lists(st.lists(st.integers(0, 9))), st.integers(0, 30))
def test_the_longest_is_that_of_all_from_a_number_on(batches: list[list[int]], first: int) -> None:
    one_by_one, together, numbered = Longest(), Longest(), list[tuple[int, int]]()
    for batch in batches:
        start = len(numbered) + 1
        numbered += enumerate(batch, start)
        together.extend([*range(start, start + len(batch))], batch)
        for number, value in enumerate(batch, start):
            one_by_one.add(number, value)
    wanted = max((value for number, value in numbered if number >= first), default=None)
    assert one_by_one.since(first) == together.since(first) == wanted


def test_of_values_that_only_fall_so_many_are_kept() -> None:
    longest = Longest(most=4)
    for number in range(100):
        longest.add(number, -number)
    assert (longest.since(0), longest.since(98)) == (-96, -98)


def test_the_scripts_own_randomness_is_untouched() -> None:
    before = random.getstate()
    sample = Sample(size=10)
    for number in range(100):
        sample.add(number, number)
    assert random.getstate() == before


def test_neither_spikes_nor_changes_of_the_mean_are_noise() -> None:
    luck = random.Random(1)
    values = [luck.gauss(3 if i < 200 else 1, 0.1) + 9 * (i % 20 == 7) for i in range(500)]
    assert noise(values) == pytest.approx(0.1, rel=0.25)


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0, 2.0], [0.0, 0.0]])
def test_noise_is_never_nothing(values: list[float]) -> None:
    assert noise(values) > 0


def test_outliers_are_bounded_and_changes_are_not() -> None:
    values = [1.0] * 10 + [9.0] + [1.0] * 10 + [2.0] * 10
    assert clipped(values, 0.1) == pytest.approx([1.0] * 10 + [1.3] + [1.0] * 10 + [2.0] * 10)
    assert bounded_sum(values[:21], 0.1) == pytest.approx(20 + 1.3)
    assert bounded_sum([1.0, 1.1, 1.2], 0.1) == pytest.approx(3.3)


def best_cuts(values: list[float], penalty: float) -> float:
    """The least cost of all ways to cut a series, by dynamic programming."""
    costs = [-penalty]
    for end in range(1, len(values) + 1):
        parts = (values[begin:end] for begin in range(end))
        squares = [sum((v - statistics.fmean(part)) ** 2 for v in part) for part in parts]
        costs.append(min(c + s + penalty for c, s in zip(costs, squares, strict=True)))
    return costs[-1]


@given(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=14), st.integers(1, 20))
def test_changepoints_cost_the_least_of_all(values: list[float], penalty: int) -> None:
    cuts = [*changepoints(values, [1.0] * len(values), penalty), len(values)]
    parts = [values[a:b] for a, b in pairwise(cuts)]
    squares = sum((v - statistics.fmean(part)) ** 2 for part in parts for v in part)
    assert squares + penalty * (len(parts) - 1) == pytest.approx(best_cuts(values, penalty))


def test_a_change_is_found_where_it_is() -> None:
    assert changepoints([5.0] * 7 + [1.0] * 9, [1.0] * 16, 1.0) == [0, 7]
