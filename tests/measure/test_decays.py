"""Where a decay is near its level, by an exponential that is fitted to it."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest

from overseer.measure.decays import decay, is_decay
from overseer.measure.steady import steady


def falling(n: int, tau: float, excess: float, sigma: float = 0.0) -> list[float]:
    random = Random(1)
    return [1 + excess * math.exp(-i / tau) + random.gauss(0, sigma) for i in range(n)]


@pytest.mark.parametrize("tau", [1.5, 4, 10, 30])
@pytest.mark.parametrize("excess", [2.0, -0.5])
def test_an_exponential_is_found_as_it_is(tau: float, excess: float) -> None:
    found = decay(falling(120, tau, excess))
    assert found is not None
    assert found.tau == pytest.approx(tau, rel=0.01)
    assert found.level == pytest.approx(1, abs=0.005)
    assert found.falls_to(0.05) == pytest.approx(tau * math.log(abs(excess) / 0.05), rel=0.01)


def test_the_mean_of_what_is_left_is_that_of_its_values() -> None:
    found = decay(falling(100, 8, 2))
    assert found is not None
    left = [value - found.level for value in falling(100, 8, 2)]
    for begin, end in pairwise([0, 1, 7, 40, 100]):
        mean = sum(left[begin:end]) / (end - begin)
        assert found.mean(begin, end) == pytest.approx(mean, abs=1e-3)
    assert found.mean(5, 5) == 0


def test_a_step_is_no_decay_and_a_decay_is() -> None:
    random = Random(2)
    step = [random.gauss(1.5 if i < 30 else 1, 0.02) for i in range(100)]
    slow = falling(100, 15, 0.5, 0.02)
    for values, is_one in ((step, False), (slow, True)):
        found = decay(values)
        assert found is not None
        assert is_decay(found, values, 30, 0.02) is is_one


@pytest.mark.parametrize("values", [[], [1.0] * 5])
def test_a_handful_of_values_tells_of_none(values: list[float]) -> None:
    assert decay(values) is None


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 1e300])
def test_a_constant_is_at_its_level_at_once(value: float) -> None:
    found = decay([value] * 50)
    assert found is not None
    assert found.falls_to(max(0.05 * value, 1e-300)) <= 0


def test_what_is_left_of_a_slow_decay_is_no_drift() -> None:
    """It falls by 5 % in the tail, nearly all of it in the first fifth."""
    values = falling(400, 20, 2, 0.003)
    assert abs((steady(values).from_step or 0) - math.ceil(20 * math.log(2 / 0.05))) <= 1


def test_a_decay_that_takes_most_of_the_tail_is_one() -> None:
    """Its mean would be further than 1 % from where it goes."""
    assert steady(falling(200, 50, 1, 0.003)).from_step is None


def test_a_decay_to_nothing_is_no_error() -> None:
    values = [2 * math.exp(-i / 5) for i in range(200)]
    assert str(steady(values)) == "never steady"
    assert str(steady([*values[:60], *([0.0] * 140)])).startswith(("steady", "never"))
