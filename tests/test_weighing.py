"""voir's own cost: a few events timed where they happened, and what was charged."""

from __future__ import annotations

import threading

import pytest

from overseer.clock import FakeClock
from overseer.weighing import ONE_IN, Account, Sampled, Weighed


class TestSampled:
    def test_the_first_event_counts_once_and_the_others_stand_for_all(self) -> None:
        sampled = Sampled()
        for ns in (5_000_000, 1000, 1000, 1000):
            sampled(ns)
        assert sampled.cost_ns(1001) == 5_000_000 + 1000 * 1000

    def test_what_came_between_is_left_out(self) -> None:
        sampled = Sampled()
        for ns in (1000, *[1000] * 15, 9_000_000):
            sampled(ns)
        assert sampled.cost_ns(100) == pytest.approx(100 * 1000)

    def test_no_events_cost_nothing(self) -> None:
        assert Sampled().cost_ns(0, 1000) == 0

    def test_events_that_were_never_timed_cost_what_is_thought(self) -> None:
        assert Sampled().cost_ns(10, 1000) == 10_000

    def test_memory_does_not_grow(self) -> None:
        sampled = Sampled()
        for ns in range(10_000):
            sampled(ns)
        assert len(sampled._taken) < 1000


class TestWeighed:
    def test_every_event_is_pushed_and_counted_and_some_are_timed(self) -> None:
        clock, pushed = FakeClock(), []

        def push(event: dict[str, object]) -> None:
            clock.advance(0.001)
            pushed.append(event)

        weighed = Weighed(push, clock.now_ns)
        for number in range(10 * ONE_IN):
            weighed({"n": number})
        assert [event["n"] for event in pushed] == list(range(10 * ONE_IN))
        assert weighed.sampled.cost_ns(weighed.events) == pytest.approx(0.16e9)

    def test_a_wish_passes_through(self) -> None:
        def push(event: dict[str, object]) -> None:
            raise KeyboardInterrupt

        weighed = Weighed(push, FakeClock().now_ns)
        with pytest.raises(KeyboardInterrupt):
            weighed({})
        assert weighed.events == 1


class TestAccount:
    def test_all_but_the_script_is_voirs(self) -> None:
        clock = FakeClock()
        account = Account(clock, since_ns=0)
        clock.advance(0.05)
        with account.script():
            clock.advance(10)
        clock.advance(0.02)
        assert account.charged_ns == 70_000_000

    def test_what_is_charged_within_the_script_counts_too(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        with account.script():
            clock.advance(1)
            account.charge(3)
            assert account.charged_ns == 3
        assert account.charged_ns == 3

    def test_what_is_charged_outside_it_is_in_there_already(self) -> None:
        account = Account(FakeClock())
        account.charge(1_000_000)
        assert account.charged_ns == 0

    def test_other_threads_are_charged_at_any_time(self) -> None:
        account = Account(FakeClock())
        thread = threading.Thread(target=account.charge, args=(1000,))
        thread.start()
        thread.join()
        assert account.charged_ns == 1000

    def test_a_script_that_fails_has_ended(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        with pytest.raises(ValueError), account.script():
            raise ValueError
        clock.advance(0.5)
        assert account.charged_ns == 500_000_000

    def test_what_is_charged_while_an_event_is_weighed_is_not_weighed(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        with account.script():
            begun = account.now_ns()
            clock.advance(0.5)
            account.charge(400_000_000)
            thread = threading.Thread(target=account.charge, args=(10**9,))
            thread.start()
            thread.join()
            assert account.now_ns() - begun == 100_000_000

    def test_events_cost_their_listeners_and_what_was_inserted(self) -> None:
        account = Account(FakeClock())
        for ns in (50_000, 2000, 2000):
            account.sampled(1)(ns)
        assert account.events_ns({1: 11}, 500) == 50_000 + 10 * 2000 + 11 * 500

    def test_what_reading_the_clock_takes_is_no_events_cost(self) -> None:
        class Slow(FakeClock):
            def cpu_ns(self) -> int:
                self.advance(300e-9)
                return super().cpu_ns()

        account = Account(Slow())
        for _ in range(4):
            begun = account.now_ns()
            account.sampled(1)(account.now_ns() - begun)
        assert account.events_ns({1: 100}, 0) == 0

    def test_a_probe_that_was_never_timed_costs_what_others_do(self) -> None:
        account = Account(FakeClock())
        for ns in (2000, 2000):
            account.sampled(1)(ns)
        assert account.events_ns({1: 10, 2: 10}, 0) == 40_000
        assert account.events_ns({}, 500) == 0
