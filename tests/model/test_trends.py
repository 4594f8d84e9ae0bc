"""Lines and exponentials are found where they are, and not where there is noise or a step."""

from __future__ import annotations

import math
from random import Random

import pytest

from overseer.model.trends import decay, drifts, fits_line, line, outliers_drift


def falling(n: int, tau: float, excess: float, sigma: float = 0.001) -> list[float]:
    random = Random(1)
    return [1 + excess * math.exp(-i / tau) + random.gauss(0, sigma) for i in range(n)]


def test_the_line_is_that_of_anscombes_first_data() -> None:
    x = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
    y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
    assert line(x, y) == pytest.approx((0.5001, 0.1179), abs=1e-4)  # Known since 1973.


@pytest.mark.parametrize(("rise", "found"), [(0.0, False), (0.02, False), (0.05, True)])
def test_a_drift_is_a_rise_that_is_plain(rise: float, found: bool) -> None:
    random = Random(1)
    means = [10 * (1 + rise * i / 17 + random.gauss(0, 0.002)) for i in range(18)]
    assert drifts(means, 10) is found
    assert drifts([20 - mean for mean in means], 10) is found


def test_a_rise_within_the_noise_is_no_drift() -> None:
    means = [1 + 0.1 * (i % 2) + 0.03 * i / 17 for i in range(18)]
    assert not drifts(means, 1)
    assert not drifts([1.0, 2.0, 3.0], 1)


def test_outliers_drift_where_they_grow() -> None:
    at = list(range(0, 200, 10))
    assert outliers_drift(at, [1 + i / 50 for i in at], 1)
    assert not outliers_drift(at, [1.0 + i % 3 for i in at], 1)
    assert not outliers_drift(at[:5], [1 + i / 50 for i in at[:5]], 1)


def test_levels_are_no_line_and_a_slope_cut_into_levels_is_one() -> None:
    random = Random(1)
    x, w = list(range(90)), [1.0] * 90
    levels = [random.gauss(1 + 0.1 * (i // 30), 0.02) for i in x]
    slope = [random.gauss(1 + 0.2 * i / 90, 0.02) for i in x]
    assert not fits_line(x, levels, w, [0, 30, 60], 0.02)
    assert fits_line(x, slope, w, [0, 30, 60], 0.02)


@pytest.mark.parametrize("tau", [1.5, 4, 10, 30])
@pytest.mark.parametrize("excess", [2.0, -0.5])
def test_a_decay_is_found_as_it_is(tau: float, excess: float) -> None:
    found = decay(falling(120, tau, excess), 20, 0.001)
    assert found is not None
    assert found.tau == pytest.approx(tau, rel=0.03)
    assert found.level == pytest.approx(1, abs=0.005)
    assert found.falls_to(0.05) == pytest.approx(tau * math.log(abs(excess) / 0.05), rel=0.03)


def test_a_step_is_no_decay_and_noise_is_none() -> None:
    random = Random(2)
    step = [random.gauss(1.5 if i < 30 else 1, 0.02) for i in range(100)]
    assert decay(step, 30, 0.02) is None
    assert decay([random.gauss(1, 0.02) for _ in range(100)], 30, 0.02) is None
    assert decay([1.0] * 5, 2, 0.02) is None
    assert decay(falling(100, 15, 0.5, 0.02), 30, 0.02) is not None
