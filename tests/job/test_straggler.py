"""The rank that others wait for is found in jobs whose truth is known."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overseer.job.straggler import (
    CONSTANT,
    LEAST_STEPS,
    ONE_OFF,
    OWN_PARTS,
    RECURRING,
    ROTATING,
    RankSteps,
    Straggler,
    examine,
    find_straggler,
)
from tests.job.simulate import STEP, SimulatedJob, Slow

#: Ranks, steps and number of jobs.
SIZES = [
    (8, 300, 100),
    pytest.param(64, 300, 100, marks=pytest.mark.slow),
    pytest.param(1024, 300, 12, marks=pytest.mark.slow),
]


def job(seed: int, ranks: int = 8, steps: int = 300, **more: Any) -> SimulatedJob:
    """A job with noise between 3 and 10 %."""
    more = {"noise": random.Random(seed).uniform(0.03, 0.1), **more}
    return SimulatedJob(ranks, steps, seed, **more)


def culprit(seed: int, ranks: int = 8) -> tuple[int, str]:
    """A rank and a part."""
    chance = random.Random(seed)
    return chance.randrange(ranks), chance.choice([*STEP])


def found(job: SimulatedJob, **more: Any) -> Straggler:
    straggler = find_straggler(job.rank_steps(**more))
    assert straggler is not None
    return straggler


def named(straggler: Straggler | None) -> bool:
    """Whether a rank is blamed."""
    return straggler is not None and straggler.kind != ROTATING


@pytest.mark.parametrize(("ranks", "steps", "jobs"), SIZES)
def test_a_rank_that_is_10_percent_slower_is_always_found_with_its_part(ranks, steps, jobs) -> None:
    wrong = []
    for seed in range(jobs):
        rank, part = culprit(seed, ranks)
        straggler = find_straggler(
            job(seed, ranks, steps, slow=[Slow(rank, 0.1, part)]).rank_steps()
        )
        what = straggler and (straggler.kind, straggler.ranks, straggler.part)
        if what != (CONSTANT, [rank], part):
            wrong.append((seed, rank, part, straggler))
    assert wrong == []


@pytest.mark.parametrize(("ranks", "steps", "jobs"), SIZES)
def test_no_rank_is_blamed_where_all_are_equal(ranks, steps, jobs) -> None:
    jobs_ = (job(seed, ranks, steps) for seed in range(jobs))
    assert [each.seed for each in jobs_ if named(find_straggler(each.rank_steps()))] == []


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_no_rank_is_blamed_if_another_is_late_each_time(ranks: int) -> None:
    late = [Slow(None, 0.5)]
    jobs = [find_straggler(job(seed, ranks, slow=late).rank_steps()) for seed in range(30)]
    assert [each for each in jobs if named(each)] == []
    if ranks == 8:
        assert {each and (each.kind, each.rank) for each in jobs} == {(ROTATING, None)}


@pytest.mark.parametrize("more", [
    {"tails": 0.05}, {"tails": 0.002}, {"drift": 0.02}, {"steps": 40}, {"ranks": 2}, {"ranks": 3},
    {"collective": None}, {"hosts": 0.01},
], ids=str)  # fmt: skip
def test_no_rank_is_blamed_for_noise(more: dict[str, Any]) -> None:
    jobs = (job(seed, **more) for seed in range(30))
    assert [each.seed for each in jobs if named(find_straggler(each.rank_steps()))] == []


def test_a_constant_straggler_is_told_with_its_times() -> None:
    straggler = found(job(1, noise=0.03, slow=[Slow(2, 0.11, "backward")]))
    assert straggler.own == pytest.approx(0.061, rel=0.03)
    assert straggler.others == pytest.approx(0.05, rel=0.03)
    assert straggler.late == pytest.approx(0.011, rel=0.1)
    assert straggler.last > 0.8 and straggler.first is None
    assert straggler.steps == straggler.examined == 290


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_rank_that_becomes_slow_is_told_from_that_step_on(ranks: int) -> None:
    for seed in range(10):
        rank, part = culprit(seed, ranks)
        straggler = found(
            job(seed, ranks, noise=0.05, slow=[Slow(rank, 0.2, part, steps=(180, 400))])
        )
        assert (straggler.kind, straggler.rank, straggler.part) == (CONSTANT, rank, part)
        assert straggler.first == pytest.approx(180, abs=16)
        assert straggler.steps == pytest.approx(120, abs=16)


@pytest.mark.parametrize(("share", "every", "steps"), [(1, 50, 600), (0.5, 3, 300), (8, 120, 600)])
def test_a_recurring_straggler_is_told_with_its_period(
    share: float, every: int, steps: int
) -> None:
    for seed in range(10):
        rank, part = culprit(seed)
        straggler = found(job(seed, steps=steps, noise=0.05, slow=[Slow(rank, share, part, every)]))
        assert (straggler.kind, straggler.rank, straggler.part) == (RECURRING, rank, part)
        assert straggler.period == every
        assert straggler.late == pytest.approx(share * 0.1, rel=0.3)


def test_a_rank_that_is_often_late_at_no_period_recurs() -> None:
    steps = random.Random(1).sample(range(20, 600), 30)
    late = [Slow(3, 1.0, "loading", steps=(at, at + 1)) for at in steps]
    straggler = found(job(1, steps=600, slow=late))
    assert (straggler.kind, straggler.rank, straggler.part) == (RECURRING, 3, "loading")
    assert straggler.period is None and straggler.steps == pytest.approx(30, abs=8)


def test_ranks_that_recur_in_turn_rotate() -> None:
    """As garbage collections of all ranks do."""
    late = [Slow(rank, 1.0, "other", 40, (20 + 5 * rank, 1 << 40)) for rank in range(8)]
    made = job(1, steps=600, noise=0.05).rank_steps()
    for each, slow in zip(made, late, strict=True):
        for at in range(20 + 5 * slow.rank, 600, 40):
            each.parts["other"][at] += 100_000_000
    straggler = find_straggler(made)
    assert straggler is not None and straggler.kind == ROTATING


@pytest.mark.parametrize("part", ["loading", "pause"])
def test_a_single_long_delay_is_a_one_off(part: str) -> None:
    for seed in range(10):
        rank, _ = culprit(seed)
        straggler = found(job(seed, slow=[Slow(rank, 20, part, steps=(77, 78))]))
        assert (straggler.kind, straggler.rank, straggler.part) == (ONE_OFF, rank, part)
        assert (straggler.first, straggler.steps, straggler.last) == (77, 1, 1.0)
        assert straggler.late == pytest.approx(2, rel=0.05)


def test_each_rank_has_its_share_of_the_steps_and_what_it_is_late_by() -> None:
    each = examine(job(3, slow=[Slow(5, 0.5, every=4)]).rank_steps()).each
    assert [one.rank for one in each] == [*range(8)]
    assert sum(one.last for one in each) == pytest.approx(1)
    latest = max(each, key=lambda one: one.last)
    assert (latest.rank, latest.last) == (5, pytest.approx(1 / 4 + 3 / 4 / 8, rel=0.3))
    assert latest.late is not None and latest.late > 0.03
    assert examine([]).each == ()


def test_without_collectives_durations_are_compared() -> None:
    straggler = found(job(3, collective=None, slow=[Slow(5, 0.1, "forward")]))
    assert (straggler.kind, straggler.rank, straggler.part) == (CONSTANT, 5, "forward")
    assert straggler.gain is None, "no rank waits"


def test_the_longest_stage_of_a_pipeline_is_told() -> None:
    straggler = found(job(1, 4, stages=[1.0, 1.0, 0.9, 1.25]))
    assert (straggler.kind, straggler.ranks) == (CONSTANT, [3])


def test_the_slower_half_of_the_ranks_is_told_together() -> None:
    straggler = found(job(4, stages=[1, 1, 1, 1, 1.2, 1.2, 1.2, 1.2], noise=0.05))
    assert straggler.kind == CONSTANT and sorted(straggler.ranks) == [4, 5, 6, 7]


@pytest.mark.parametrize("slow", [
    Slow(2, 0.3, "backward"), Slow(2, 0.12, "loading"), Slow(2, 2.0, "other", 10),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("ranks", [2, 4, 32])
def test_the_gain_is_that_of_a_rerun_without_the_lateness(ranks: int, slow: Slow) -> None:
    made = job(5, ranks, 600, noise=0.05, slow=[replace(slow, rank=slow.rank % ranks)])
    seconds = []
    for each in (made, replace(made, slow=())):
        columns = each.columns()
        seconds.append(sum(columns[name][0, 10:].sum() for name in (*OWN_PARTS, "communication")))
    truth = seconds[0] / seconds[1] - 1
    assert found(made).gain == pytest.approx(truth, rel=0.2)


def test_ranks_are_aligned_by_their_common_steps() -> None:
    made = job(6, steps=900, slow=[Slow(4, 0.15)]).rank_steps({1: 2, 4: 4})
    ended = made[3]
    made[3] = RankSteps(3, ended.numbers[:-100], {k: v[:-100] for k, v in ended.parts.items()})
    straggler = find_straggler(made)
    assert straggler is not None and (straggler.kind, straggler.rank) == (CONSTANT, 4)
    assert straggler.examined == 200 - 10


def test_a_rank_with_few_steps_is_left_out() -> None:
    made = job(7, slow=[Slow(4, 0.15)]).rank_steps()
    for rank, kept in (0, 30), (1, 0):
        of = made[rank]
        made[rank] = RankSteps(rank, of.numbers[:kept], {k: v[:kept] for k, v in of.parts.items()})
    straggler = find_straggler(made)
    assert straggler is not None and straggler.rank == 4 and straggler.examined == 290


def test_too_few_steps_or_ranks_tell_nothing() -> None:
    slow = [Slow(0, 5.0)]
    assert find_straggler([]) is None
    assert find_straggler(job(1, 1, slow=slow).rank_steps()) is None
    assert find_straggler(job(1, 2, LEAST_STEPS - 1, slow=slow).rank_steps()) is None
    parts = {name: [0] * 50 for name in (*OWN_PARTS, "communication")}
    assert find_straggler([RankSteps(n, range(1, 51), parts) for n in range(2)]) is None


@settings(max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(2, 5), st.integers(0, 60))
def test_any_times_can_be_searched_and_the_order_of_ranks_does_not_matter(
    chance: random.Random, ranks: int, steps: int
) -> None:
    made = []
    for rank in range(ranks):
        numbers = sorted(chance.sample(range(1, 80), steps))
        parts = {
            name: [chance.choice([0, -5, 10**6, chance.randrange(10**12)]) for _ in numbers]
            for name in (*OWN_PARTS, "communication")
        }
        made.append(RankSteps(rank, numbers, parts))
    straggler = find_straggler(made)
    assert straggler is None or straggler.rank is None or straggler.rank in straggler.ranks
    other = find_straggler(made[::-1])
    assert (other and (other.kind, other.late)) == (straggler and (straggler.kind, straggler.late))
