"""The verdict: over simulated benches of ten pairs, false alarms and true differences."""

from __future__ import annotations

import pytest

from overseer.bench import judging
from overseer.bench.judging import Verdict
from overseer.model.intervals import Change, of_pairs, of_processes, of_unpaired
from tests.bench.simulate import Machine, skewed, verdicts

#: Simulations of each kind.
MANY = 1000


@pytest.mark.parametrize("until", [None, 0.01])
def test_identical_programs_never_differ(until: float | None) -> None:
    found = verdicts({}, MANY, until)
    assert set(found) <= {judging.EQUIVALENT, judging.INCONCLUSIVE}


@pytest.mark.parametrize("until", [None, 0.01])
@pytest.mark.parametrize(("times", "expected"), [(1.03, "regression"), (1 / 1.03, "improvement")])
def test_three_percent_are_found_with_ten_pairs(
    times: float, expected: str, until: float | None
) -> None:
    found = verdicts({"B": times}, MANY, until)
    assert found[expected] >= 0.95 * MANY
    assert set(found) == {expected, judging.INCONCLUSIVE}


def test_a_machine_that_favours_one_copy_gets_no_verdict() -> None:
    assert verdicts(skewed(0.38), MANY) == {judging.INCONCLUSIVE: MANY}
    alarms = verdicts(skewed(0.02), MANY)["regression"]
    assert alarms <= 0.1 * MANY  # Without the control it would be more than a third.


def test_a_whole_bench_follows_the_simulated_rule() -> None:
    for seed in range(3):
        machine = Machine(seed, {"B": 1.2})
        (found,) = machine.bench().verdicts()
        assert (found.verdict, found.n, found.side) == ("regression", 10, "B")
        assert len(machine.ran) == 1 + 20 + 5  # The warm-up, ten pairs, five controls.


def test_the_control_names_what_the_machine_could_tell() -> None:
    (found,) = Machine(0, skewed(0.17)).bench().verdicts()
    assert "the reference against itself: -1" in found.why
    assert found.tells is not None and 0.1 < found.tells < 0.3
    assert judging.status(found) == 5


def test_a_large_difference_is_told_at_a_threshold_above_that_of_the_control() -> None:
    change, control = Change(4.0, (3.9, 4.1), 0.02, 10), Change(0.97, (0.963, 0.974), 0.01, 5)
    verdict = judging.judged(change, "up", 0.01)
    found = judging.guarded(verdict, change, control, Change(4.1, (4.0, 4.2), 0.02, 5), 0.01)
    assert (found.verdict, found.tells) == ("inconclusive", pytest.approx(0.04))


CHANGES = [
    (Change(0.9, (0.88, 0.92), 0.02, 10), "up", "regression", 1),
    (Change(0.9, (0.88, 0.92), 0.02, 10), "down", "improvement", 0),
    (Change(0.9, (0.88, 0.92), 0.02, 10), "", "difference", 0),
    (Change(1.0, (0.995, 1.005), 0.005, 10), "up", "no difference", 0),
    (Change(1.02, (1.0, 1.04), 0.03, 10), "up", "inconclusive", 5),
    (Change(1.02, None, 0.0, 1), "up", "inconclusive", 5),
    (Change(None, None, 0.0, 10), "up", "inconclusive", 5),
]


@pytest.mark.parametrize(("change", "better", "expected", "status"), CHANGES)
def test_an_interval_beyond_the_threshold_is_a_difference(
    change: Change, better: str, expected: str, status: int
) -> None:
    found = judging.judged(change, better, 0.01)
    assert (found.verdict, judging.status(found)) == (expected, status)
    beyond = expected in ("improvement", "difference")
    assert judging.status(found, fail_on_difference=True) == (1 if beyond else status)


def test_the_number_of_missing_pairs_is_told() -> None:
    found = judging.judged(of_pairs([100.0, 101, 99, 100], [102.0, 104, 100, 103]), "up", 0.01)
    assert found.more is not None
    assert f"about {found.more} more pairs needed" in found.why
    at = judging.judged(Change(1.01, (1.0, 1.02), 0.03, 10), "up", 0.01)
    assert at.more is None
    assert at.why.endswith("it is at the threshold")


def test_values_below_zero_are_compared_by_their_differences() -> None:
    found = of_pairs([-2.0, -2.1, -1.9], [-1.0, -1.1, -0.9])
    assert found.ratio == pytest.approx(1.5)
    assert of_unpaired([-2.0, -2.1, -1.9], [-1.0, -1.1, -0.9]).ratio == pytest.approx(1.5)
    assert of_pairs([0.0, 0.0], [1.0, 1.0]).ratio is None
    assert of_processes([-1.0, 1.0]).ratio == 0


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert (
        judging.judged(of_pairs([5.0] * 3, [5.0] * 3), "down", 0.01).verdict == judging.EQUIVALENT
    )
    assert judging.judged(of_pairs([5.0] * 3, [6.0] * 3), "down", 0.01).verdict == "regression"


def test_of_several_sides_a_regression_decides() -> None:
    every = [Verdict("improvement", ""), Verdict("regression", ""), Verdict("inconclusive", "")]
    assert judging.overall(every).verdict == "regression"
    assert judging.overall(every[::2]).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("share", "up"), [(0.0123, 0.02), (0.01, 0.01), (0.0987, 0.1), (0.31415, 0.32), (0.0, 0.0)]
)
def test_what_a_machine_can_tell_is_rounded_up(share: float, up: float) -> None:
    assert judging.ceil(share) == pytest.approx(up)
