"""The end of the warm-up is found, and a run that never settles is never called steady."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overseer.model.noise import CLIPPED_TOGETHER, bounded_sum, noise
from overseer.model.steady import SteadyState, steady

from .kinds import ALIKE, DRIFTING, ERRATIC, RESTLESS, STEADY, Series

#: Series of each kind.
SEEDS = 10
Kind = Callable[[Random], Series]


def found(kind: Kind, seeds: int = SEEDS) -> Iterator[tuple[int, int | None, int | None]]:
    """Seed, detected and true beginning of the steady state, for series of a kind."""
    for seed in range(seeds):
        values, truth = kind(Random(seed))
        yield seed, steady(values).from_step, truth


def slow(steps: range, factor: float) -> list[float]:
    """Times of 544 steps, of which some are slower."""
    random = Random(1)
    return [random.gauss(6, 0.1) * (factor if i in steps else 1) for i in range(544)]


def near(step: int | None, truth: int | None) -> bool:
    return step is not None and truth is not None and abs(step - truth) <= 2


@pytest.mark.parametrize("kind", STEADY.values(), ids=STEADY)
def test_the_boundary_is_found_within_two_steps(kind: Kind) -> None:
    missed = [each for each in found(kind, 20) if not near(*each[1:])]
    assert len(missed) <= 1, missed


@pytest.mark.parametrize("kind", ALIKE.values(), ids=ALIKE)
def test_a_change_within_the_tolerance_does_not_make_a_run_never_steady(kind: Kind) -> None:
    missed = [(s, at, truth) for s, at, truth in found(kind) if not near(at, 0)]
    assert [each for each in missed if not near(*each[1:])][SEEDS // 20 :] == []


@pytest.mark.parametrize("kind", RESTLESS.values(), ids=RESTLESS)
def test_ups_and_downs_within_the_noise_do_not_make_a_run_never_steady(kind: Kind) -> None:
    assert sum(step is None for _, step, _ in found(kind)) <= SEEDS // 10


@pytest.mark.parametrize("kind", DRIFTING.values(), ids=DRIFTING)
def test_a_series_that_drifts_is_never_called_steady(kind: Kind) -> None:
    assert [(seed, step) for seed, step, _ in found(kind) if step is not None] == []


@pytest.mark.parametrize("kind", ERRATIC.values(), ids=ERRATIC)
def test_a_series_that_changes_all_the_time_is_not_called_steady(kind: Kind) -> None:
    assert sum(step is not None for _, step, _ in found(kind)) <= SEEDS // 20


#: Times of steps, options, and the verdict.
SAID: list[tuple[list[float], dict[str, Any], str]] = [
    *(([1.0] * n, {}, "too few steps") for n in (0, 1, 2, 11)),
    ([1.0], {"counts": [40]}, "too few steps"),  # One block tells nothing of its steps.
    ([100 / (i + 1) for i in range(30)], {}, "too short"),
    ([100 / (i + 1) for i in range(300)], {}, "never steady"),
    ([2 + i // 25 for i in range(100)], {"seconds": 0.3}, "too short"),
    ([2 + i // 25 for i in range(100)], {"seconds": 1.4}, "never steady"),
    ([0.0] * 12, {}, "steady from step 0"),
    ([5.0] * 12, {}, "steady from step 0"),
    ([3.0] * 10 + [1.0] * 40, {"numbers": range(7, 57)}, "steady from step 17"),
    ([3e9] * 10 + [1e9] * 40, {}, "steady from step 10"),  # The unit of time does not matter.
    ([3e-9] * 10 + [1e-9] * 40, {}, "steady from step 10"),
    (slow(range(272, 292), 4), {}, "steady from step 0"),  # A hiccup.
    (slow(range(9, 544, 50), 20), {}, "steady from step 0"),  # No warm-up: they come again.
]


@pytest.mark.parametrize(("values", "options", "said"), SAID)
def test_the_verdict_on_times(values: list[float], options: dict[str, Any], said: str) -> None:
    assert str(steady(values, **options)) == said


@pytest.mark.parametrize("slower", [1.5, 4.5])
def test_one_slow_epoch_of_eight_is_no_hiccup(slower: float) -> None:
    assert near(steady(slow(range(272, 340), slower)).from_step, 340)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e12), max_size=60), st.lists(st.integers(2, 40), max_size=3))
def test_any_times_get_a_verdict(values: list[float], blocks: list[int]) -> None:
    counts = [1] * max(0, len(values) - len(blocks)) + blocks[: len(values)]
    step = steady(values, counts).from_step
    assert step is None or 0 <= step < sum(counts)


# Long runs, whose later steps come in blocks

HEAD, BLOCKS = 4096, 1024


def in_blocks(n: int, time: Callable[[int], float]) -> SteadyState:
    """The verdict on steps of 1 ms, times what ``time`` says, with 3 % noise."""
    random = Random(3)
    steps = [1e6 * time(i) * random.gauss(1, 0.03) for i in range(n)]
    sigma, length = noise(steps[HEAD // 4 : HEAD]), CLIPPED_TOGETHER
    while n - HEAD > length * BLOCKS:
        length *= 2
    begins = [*range(min(n, HEAD)), *range(HEAD, n, length)]
    counts = [1 if at < HEAD else min(length, n - at) for at in begins]

    def mean(part: Sequence[float]) -> float:
        chunks = (part[i : i + CLIPPED_TOGETHER] for i in range(0, len(part), CLIPPED_TOGETHER))
        return sum(bounded_sum(chunk, sigma) for chunk in chunks) / len(part)

    values = [
        steps[at] if at < HEAD else mean(steps[at : at + k])
        for at, k in zip(begins, counts, strict=True)
    ]
    return steady(values, counts, begins)


@pytest.mark.parametrize(("until", "within"), [(137, 2), (2500, 2), (60_000, 256)])
def test_warm_up_is_found_to_the_step_early_in_a_long_run_and_to_the_block_late(
    until: int, within: int
) -> None:
    found = in_blocks(200_000, lambda i: 3 if i < until else 1)
    assert abs((found.from_step or 0) - until) <= within


@pytest.mark.parametrize("every", [4, 7, 100])
def test_a_rhythm_is_no_change_where_steps_come_in_blocks(every: int) -> None:
    found = in_blocks(20_000, lambda i: (3 if i < 50 else 1) * (1 if i % every else 8))
    assert abs((found.from_step or 0) - 50) <= 2


@pytest.mark.parametrize("n", [4_000, 4_500, 12_000])
@pytest.mark.parametrize(("often", "slow"), [(0.02, (5, 9)), (0.05, (2, 5))])
def test_slow_steps_by_chance_are_no_change_where_steps_come_in_blocks(
    n: int, often: float, slow: tuple[int, int]
) -> None:
    def time(luck: Random, step: int) -> float:
        return (3 if step < 50 else 1) * (luck.uniform(*slow) if luck.random() < often else 1)

    for seed in range(3):
        found = in_blocks(n, partial(time, Random(seed)))
        assert abs((found.from_step or 0) - 50) <= 8, (seed, str(found))


@pytest.mark.parametrize("n", [9_000, 100_000])
@pytest.mark.parametrize("by", [0.1, -0.1])
def test_a_long_run_that_drifts_a_little_is_not_steady(n: int, by: float) -> None:
    assert str(in_blocks(n, lambda i: 1 + by * i / n)) == "never steady"
