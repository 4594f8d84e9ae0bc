"""What a piece of code costs, among other work and in a loop of its own."""

from __future__ import annotations

import pytest

from overseer.clock import FakeClock
from overseer.measure.cost import cold_ns, warm_ns


class Read(FakeClock):
    """A clock that it takes 100 ns to read."""

    def now_ns(self) -> int:
        self.advance(100e-9)
        return super().now_ns()


def test_reading_the_clock_does_not_count() -> None:
    clock = Read()
    assert cold_ns(clock.now_ns, lambda: clock.advance(2e-6)) == pytest.approx(2000)
    assert cold_ns(clock.now_ns, int) == 0


def test_a_hitch_while_measuring_does_not_count() -> None:
    clock = FakeClock()
    calls = iter(range(1000))
    each = cold_ns(clock.now_ns, lambda: clock.advance(1e-3 if next(calls) < 9 else 1e-6), n=20)
    assert each == pytest.approx(1000)


def test_in_a_loop_of_its_own_all_of_them_count() -> None:
    clock, calls = FakeClock(), []

    def event() -> None:
        calls.append(clock.advance(1e-6))

    assert warm_ns(clock.now_ns, event, n=50) == pytest.approx(1000)
    assert len(calls) == 50
