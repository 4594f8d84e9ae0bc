"""Losses of two sides: the same, within the seeds' band, or parted from a step on."""

from __future__ import annotations

import math
from random import Random

import pytest

from overseer.model.loss_curves import PARTED, THE_SAME, WITHIN_BAND, loss_change

Curve = dict[int, float]


def curve(seed: int, steps: int = 200, shift: float = 0.0, since: int = 1) -> Curve:
    """Losses that fall; with seeds whose level varies by 1 %, and steps by 10 %."""
    random = Random(seed)
    level = random.gauss(1, 0.01)
    return {
        at: (level + (shift if at >= since else 0)) * math.exp(-at / 100) * random.gauss(1, 0.1)
        for at in range(1, steps + 1)
    }


def test_equal_losses_are_the_same_in_whatever_order_the_runs_are() -> None:
    a, b = curve(1), curve(2)
    assert loss_change([a], [dict(a)]) == (THE_SAME, None, 200)
    assert loss_change([a, b], [b, a, a]) == (THE_SAME, None, 200)
    rounded = {step: loss * (1 + 1e-7) for step, loss in a.items()}
    assert loss_change([a], [rounded]) == (THE_SAME, None, 200)


def test_single_runs_are_the_same_up_to_a_step() -> None:
    assert loss_change([curve(1)], [curve(1, shift=0.01, since=40)]) == (PARTED, 40, 200)
    assert loss_change([curve(1)], [curve(2)]) == (PARTED, 1, 200)
    repeated = [curve(1), curve(1)]  # The same seed: no spread that could be a band.
    assert loss_change(repeated, [curve(1, 150, 0.01, 40)] * 2) == (PARTED, 40, 150)


@pytest.mark.parametrize(("runs", "most"), [(2, 10), (3, 6), (5, 4), (10, 2)])
def test_other_seeds_alone_are_within_the_band(runs: int, most: int) -> None:
    false = 0
    for trial in range(200):
        sides = [[curve(10_000 * trial + 2 * n + s, 60) for n in range(runs)] for s in (0, 1)]
        found = loss_change(*sides)
        assert found is not None
        false += found[0] != WITHIN_BAND
    assert false <= most


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_losses_of_another_model_part_about_where_they_do(runs: int) -> None:
    a = [curve(2 * n) for n in range(runs)]
    b = [curve(2 * n + 1, shift=0.3, since=101) for n in range(runs)]
    found = loss_change(a, b)
    assert found is not None
    assert (found[0], found[2]) == (PARTED, 200)
    assert found[1] in range(91, 122)


def test_a_difference_that_goes_away_is_within_the_band() -> None:
    a = [curve(2 * n) for n in range(5)]
    b = [
        {**curve(2 * n + 1, shift=0.3), **dict([*curve(2 * n + 1).items()][100:])} for n in range(5)
    ]
    found = loss_change(a, b)
    assert found is not None
    assert found[0] == WITHIN_BAND


@pytest.mark.parametrize("sides", [([], []), ([{1: 2.0}], []), ([{1: 2.0}], [{2: 2.0}])])
def test_without_common_steps_there_is_nothing_to_say(
    sides: tuple[list[Curve], list[Curve]],
) -> None:
    assert loss_change(*sides) is None
