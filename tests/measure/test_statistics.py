"""Quantiles are exact while they can be, fair when they can't, and memory stays what it is."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.measure.statistics import Sample, Statistics, Summary, at_least, quantile

FINITE = st.floats(-1e9, 1e9, allow_nan=False)


@given(st.lists(FINITE, min_size=2, max_size=50))
def test_quartiles_are_those_of_the_standard_library(values: list[float]) -> None:
    found = Statistics()
    found.extend(values)
    summary = found.summary()
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    found_quartiles = [summary.q1, summary.median, summary.q3]
    assert found_quartiles == pytest.approx([q1, median, q3])
    assert (summary.n, summary.min, summary.max) == (len(values), min(values), max(values))
    assert summary.mean == pytest.approx(statistics.fmean(values), abs=1e-6)


def test_nothing_has_no_median() -> None:
    assert Statistics().summary() == Summary(0, 0)
    with pytest.raises(IndexError):
        quantile([], 0.5)


def test_what_is_skipped_is_counted_and_not_mixed_in() -> None:
    found = Statistics(skip=3)
    for value in [100.0, 100.0, 100.0, 1.0, 2.0, 3.0]:
        found(value)
    assert found.summary() == Summary(3, 3, 2.0, 1.5, 2.5, 2.0, 1.0, 3.0)


def test_values_that_are_not_finite_are_not_counted() -> None:
    found = Statistics()
    found.extend([1.0, math.nan, math.inf, 3.0])
    assert (found.summary().n, found.summary().median) == (2, 2.0)


def test_a_sample_of_very_many_keeps_its_size_and_its_median() -> None:
    found = Statistics()
    for start in range(0, 1_000_000, 1000):
        found.extend(range(start, start + 1000))
    summary = found.summary()
    assert summary.n == 1_000_000
    assert summary.median == pytest.approx(500_000, abs=40_000)  # Five standard errors.
    assert summary.q1 == pytest.approx(250_000, abs=35_000)
    assert (summary.min, summary.max, summary.mean) == (0, 999_999, 499_999.5)


@pytest.mark.parametrize("chunk", [1, 7, 64, 5000])
def test_a_sample_is_full_and_uniform_whatever_the_chunks(chunk: int) -> None:
    sample: Sample[int] = Sample(size=500)
    for start in range(0, 20_000, chunk):
        part = range(start, min(start + chunk, 20_000))
        sample.extend(part, part)
    kept = sample.since(0)
    assert len(kept) == 500
    assert sum(value >= 10_000 for value in kept) == pytest.approx(250, abs=56)


def test_a_sample_knows_which_values_came_late() -> None:
    sample: Sample[str] = Sample()
    sample.extend(range(5), "abcde")
    assert sample.since(3) == ["d", "e"]


def test_the_scripts_own_randomness_is_untouched() -> None:
    random.seed(7)
    before = random.getstate()
    found = Statistics(size=10)
    found.extend(range(1000))
    assert random.getstate() == before


@pytest.mark.parametrize(
    ("k", "n", "share"), [(0, 9, 0.2), (3, 9, 0.2), (9, 9, 0.9), (2, 40, 0.05)]
)
def test_a_binomial_tail_is_the_sum_of_its_terms(k: int, n: int, share: float) -> None:
    terms = (math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k, n + 1))
    assert at_least(k, n, share) == pytest.approx(sum(terms))


def test_a_binomial_tail_of_very_many_is_no_overflow() -> None:
    assert at_least(1500, 3000, 0.5) == pytest.approx(0.5, abs=0.01)
    assert at_least(3000, 3000, 0.1) == 0
