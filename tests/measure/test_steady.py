"""Warm-up is found where it ends, and a run that never settles is never called steady."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overseer.measure.series import Series
from overseer.measure.steady import find_steady, steady

from .kinds import ALIKE, DRIFTING, ERRATIC, RESTLESS, STEADY, Kind

SEEDS = 100


@pytest.mark.parametrize("kind", STEADY, ids=lambda kind: kind.__name__)
def test_the_boundary_is_within_two_steps_in_95_of_100_series(kind: Kind) -> None:
    missed = [found for found in boundaries(kind) if not near(*found)]
    assert len(missed) <= 5, missed


@pytest.mark.parametrize("kind", ALIKE, ids=lambda kind: kind.__name__)
def test_a_change_within_the_tolerance_does_not_make_a_run_never_steady(kind: Kind) -> None:
    """It is steady from the first step on, or from the change."""
    missed = [
        (found, truth)
        for found, truth in boundaries(kind)
        if not (near(found, 0) or near(found, truth))
    ]
    assert len(missed) <= 5, missed


def boundaries(kind: Kind) -> Iterator[tuple[int | None, int]]:
    """Where series of this kind are found to become steady, and where they do."""
    for seed in range(SEEDS):
        values, truth = kind(Random(seed))
        assert truth is not None
        yield steady(values).from_step, truth


def near(found: int | None, truth: int) -> bool:
    """Whether it is the step, or one of the two on either side."""
    return found is not None and abs(found - truth) <= 2


@pytest.mark.parametrize("kind", RESTLESS, ids=lambda kind: kind.__name__)
def test_ups_and_downs_within_the_noise_are_no_reason_to_call_a_run_never_steady(
    kind: Kind,
) -> None:
    found = [steady(kind(Random(seed))[0]).from_step is not None for seed in range(SEEDS)]
    assert sum(found) >= 90


@pytest.mark.parametrize("kind", DRIFTING, ids=lambda kind: kind.__name__)
def test_a_series_that_drifts_is_never_called_steady(kind: Kind) -> None:
    found = {seed: steady(kind(Random(seed))[0]).from_step for seed in range(SEEDS)}
    assert {seed: step for seed, step in found.items() if step is not None} == {}


@pytest.mark.parametrize("kind", ERRATIC, ids=lambda kind: kind.__name__)
def test_what_changes_all_the_time_is_not_called_steady(kind: Kind) -> None:
    found = [steady(kind(Random(seed))[0]).from_step is not None for seed in range(SEEDS)]
    assert sum(found) <= 5


@pytest.mark.parametrize("n", [0, 1, 2, 3, 11])
def test_a_handful_of_steps_are_too_few(n: int) -> None:
    assert str(steady([1.0] * n)) == "too few steps"


def test_a_short_run_that_has_not_settled_is_too_short_to_tell() -> None:
    assert str(steady([100 / (i + 1) for i in range(30)])) == "too few steps"


def test_a_long_run_that_has_not_settled_never_was_steady() -> None:
    assert str(steady([100 / (i + 1) for i in range(300)])) == "never steady"


def test_constant_times_are_steady_from_the_first_step() -> None:
    assert str(steady([5.0] * 12)) == "steady from step 0"


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_of_time_does_not_matter(unit: float) -> None:
    values, truth = STEADY[4](Random(1))
    assert steady([value * unit for value in values]).from_step == truth


def test_times_of_nothing_are_no_error() -> None:
    assert str(steady([0.0] * 100)) == "steady from step 0"


def test_the_verdict_names_the_number_of_the_step_where_steps_are_missing() -> None:
    values = [3.0] * 10 + [1.0] * 40
    assert steady(values, numbers=list(range(7, 57))).from_step == 17


@pytest.mark.parametrize(("ms", "said"), [(1, "too few steps"), (4, "never steady")])
def test_what_is_over_in_a_moment_had_no_time_to_become_steady(ms: int, said: str) -> None:
    series = Series()
    ns = [ms * 1_000_000 * (2 + i // 25) for i in range(100)]  # 0.35 s and 1.4 s, ever slower.
    series.extend(range(100), ns, [32] * 100, ns, ns)
    assert str(find_steady(series)) == said


@pytest.mark.parametrize("slower", [1.5, 2, 3, 4.5])
def test_one_slow_epoch_of_eight_is_no_hiccup(slower: float) -> None:
    """The rate from behind it is that of the other epochs; with it in it would be 6 % less."""
    random = Random(1)
    values = [random.gauss(6, 0.1) * (slower if 272 <= i < 340 else 1) for i in range(544)]
    assert abs((steady(values).from_step or 0) - 340) <= 2


@pytest.mark.parametrize("slow", [1, 5, 10, 20])
def test_a_hiccup_of_a_few_steps_is_forgiven(slow: int) -> None:
    random = Random(1)
    values = [random.gauss(6, 0.1) * (4 if 272 <= i < 272 + slow else 1) for i in range(544)]
    assert str(steady(values)) == "steady from step 0"


def _series(n: int, time: Callable[[int], float]) -> Series:
    """A long run whose steps take 1 ms, times what ``time`` says, with 3 % noise."""
    random, series = Random(3), Series()
    for start in range(0, n, 64):
        steps = range(start, min(n, start + 64))
        ns = [int(1e6 * time(i) * (1 + random.gauss(0, 0.03))) for i in steps]
        series.extend(steps, ns, [32] * len(ns), ns, ns)
    return series


def test_early_warm_up_is_found_to_the_step_in_a_run_of_200000() -> None:
    found = find_steady(_series(200_000, lambda i: 3 if i < 137 else 1))
    assert abs((found.from_step or 0) - 137) <= 2


def test_late_warm_up_is_found_to_the_block_in_a_run_of_200000() -> None:
    found = find_steady(_series(200_000, lambda i: 3 if i < 60_000 else 1))
    assert abs((found.from_step or 0) - 60_000) <= 256


@pytest.mark.parametrize("every", [4, 7, 100])
def test_steps_that_are_slow_now_and_then_are_no_change_where_steps_come_in_blocks(
    every: int,
) -> None:
    found = find_steady(_series(20_000, lambda i: (3 if i < 50 else 1) * (1 if i % every else 8)))
    assert abs((found.from_step or 0) - 50) <= 2


def _now_and_then(luck: Random, often: float, slow: tuple[int, int], step: int) -> float:
    return (3 if step < 50 else 1) * (luck.uniform(*slow) if luck.random() < often else 1)


@pytest.mark.parametrize("n", [4_000, 4_500, 12_000])
@pytest.mark.parametrize(("often", "slow"), [(0.02, (5, 9)), (0.05, (2, 5))])
def test_slow_steps_by_chance_do_not_make_a_run_unsteady_once_steps_come_in_blocks(
    n: int, often: float, slow: tuple[int, int]
) -> None:
    for seed in range(6):
        found = find_steady(_series(n, partial(_now_and_then, Random(seed), often, slow)))
        assert abs((found.from_step or 0) - 50) <= 8, (seed, str(found))


@pytest.mark.parametrize("n", [9_000, 100_000])
@pytest.mark.parametrize("by", [0.1, -0.1])
def test_a_long_run_that_drifts_a_little_is_not_steady(n: int, by: float) -> None:
    assert str(find_steady(_series(n, lambda i: 1 + by * i / n))) == "never steady"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e12), max_size=60))
def test_any_times_get_a_verdict(values: list[float]) -> None:
    found = steady(values)
    assert found.from_step is None or 0 <= found.from_step < len(values)
