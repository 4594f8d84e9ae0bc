"""voir's own cost: what an event was measured to cost, times events, and the work it timed."""

from __future__ import annotations

import pytest

from overseer.clock import FakeClock
from overseer.measure.cost import OwnCost


def test_events_cost_what_was_measured_beforehand() -> None:
    clock = FakeClock()
    cost = OwnCost(clock)
    each = cost.calibrate("step", lambda: clock.advance(2e-6))
    assert each == pytest.approx(2000)
    cost.count("step", lambda: 1_000_000)
    overhead = cost.overhead(run_seconds=100)
    assert overhead.seconds == pytest.approx(2.0)
    assert overhead.share == pytest.approx(0.02)


def test_a_hitch_while_measuring_does_not_count() -> None:
    clock = FakeClock()
    calls = iter(range(1000))
    cost = OwnCost(clock)
    each = cost.calibrate("step", lambda: clock.advance(1e-3 if next(calls) < 9 else 1e-6), n=20)
    assert each == pytest.approx(1000)


def test_what_others_measure_themselves_is_counted() -> None:
    cost = OwnCost(FakeClock())
    cost.measured(lambda: 3e9)
    assert cost.overhead(10).seconds == 3.0


def test_kinds_that_were_not_measured_cost_nothing_that_is_known() -> None:
    cost = OwnCost(FakeClock())
    cost.count("span", lambda: 5)
    assert cost.overhead(1.0).seconds == 0
    cost.count("span", lambda: 5, each_ns=200)
    assert cost.overhead(1.0).seconds == pytest.approx(1e-6)


def test_work_is_charged_for_its_time_and_does_what_it_did() -> None:
    clock = FakeClock()
    cost = OwnCost(clock)

    def work(seconds: float) -> str:
        clock.advance(seconds)
        return "done"

    assert cost.timed(work)(0.5) == "done"
    cost.charge(250_000_000)
    cost.charge(-5)
    assert cost.overhead(10).seconds == pytest.approx(0.75)


def test_one_call_in_ten_stands_for_ten() -> None:
    clock = FakeClock()
    cost = OwnCost(clock)
    sampled = cost.timed(lambda: clock.advance(0.001), every=10)
    for _ in range(100):
        sampled()
    assert cost.overhead(1.0).seconds == pytest.approx(0.1)


def test_work_that_fails_is_charged_and_fails() -> None:
    clock = FakeClock()
    cost = OwnCost(clock)

    def work() -> None:
        clock.advance(0.5)
        raise ValueError

    with pytest.raises(ValueError):
        cost.timed(work)()
    assert cost.overhead(1.0).seconds == pytest.approx(0.5)


def test_a_run_of_no_time_has_no_share() -> None:
    assert OwnCost(FakeClock()).overhead(0.0).share is None
