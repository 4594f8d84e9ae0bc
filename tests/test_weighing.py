"""voir's own cost: a few events timed where they happened, and what was charged."""

from __future__ import annotations

import threading

import pytest

from overseer.clock import FakeClock
from overseer.weighing import NOTED, ONE_IN, Account, Inserted, Turns, Weighed
from tests.test_sittings import weigh


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
        account.sitting(1).begin(0)
        weigh(account.sitting(1).place(), 50_000, 9000, 2000, 2000)
        cost = account.events_ns({1: 11}, Inserted(500, 500))
        assert cost == 50_000 + 10 * 2000 + 11 * 500

    def test_what_reading_the_clock_takes_is_no_events_cost(self) -> None:
        class Slow(FakeClock):
            def cpu_ns(self) -> int:
                self.advance(300e-9)
                return super().cpu_ns()

        account = Account(Slow())
        one = account.sitting(1).place()
        for _ in range(5):
            began = account.now_ns()
            one(began, account.now_ns())
        assert account.events_ns({1: 100}, Inserted(0, 0)) == 0

    def test_a_probe_that_was_never_timed_costs_what_others_do(self) -> None:
        account = Account(FakeClock())
        weigh(account.sitting(1).place(), 2000, 2000, 2000)
        assert account.events_ns({1: 10, 2: 10}, Inserted(0, 0)) == 40_000
        assert account.events_ns({}, Inserted(500, 500)) == 0

    def test_what_nobody_heard_costs_nothing(self) -> None:
        account = Account(FakeClock())
        weigh(account.sitting(1).place(), 2000, 2000, 2000)
        cost = account.events_ns({1: 10, 2: 1000}, Inserted(0, 0), {}, {1: 4, 2: 1000})
        assert cost == 12_000

    def test_a_hook_stands_for_others_and_displaces_what_the_script_needs(self) -> None:
        account = Account(FakeClock())
        account.hooked(3000, 16, 0)
        account.hooked(50_000, 1, 2)
        assert account.hooked_ns(1.0) == 16 * 3000 + 50_000
        assert account.hooked_ns(1.5) == 1.5 * 16 * 3000 + 50_000 + 10_000

    def test_hooks_and_events_together_take_no_longer_than_the_script(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        with account.script():
            clock.advance(0.001)
        account.hooked(400_000, 8, 0)
        assert account.hooked_ns(1.0) == 1_000_000
        assert account.hooked_ns(1.0) == 0

    def test_events_that_a_hook_gave_are_not_counted_once_more(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        way = Weighed(lambda event: clock.advance(0.001), clock.now_ns)
        for number in range(8):
            way({"n": number})
        account.hooked(8_000_000, 1, 8)
        assert account.given_ns(way) == 0

    def test_what_is_inserted_costs_less_in_a_loop_that_does_nothing_else(self) -> None:
        account = Account(FakeClock())
        weigh(account.sitting(1).place(), *[1000] * 40)
        assert account.events_ns({1: 100}, Inserted(500, 50)) == 100 * 1050

    def test_what_was_noted_costs_a_part(self) -> None:
        account = Account(FakeClock())
        weigh(account.sitting(1).place(), 2000, 2000, 2000, between=10**6)
        cost = account.events_ns({1: 100}, Inserted(500, 50), {1: 90})
        assert cost == pytest.approx((10 + 90 * NOTED) * 2500 * 1.9)

    def test_an_event_that_takes_long_displaces_no_more_than_caches_hold(self) -> None:
        account = Account(FakeClock())
        weigh(account.sitting(1).place(), *[2_000_000] * 5, between=10**7)
        cost = account.events_ns({1: 100}, Inserted(5000, 500))
        assert 100 * 2_000_000 < cost < 1.02 * 100 * 2_000_000

    def test_events_cost_no_more_than_the_script_took(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        with account.script():
            clock.advance(0.5)
            account.charge(100_000_000)
        clock.advance(3)
        way = Weighed(lambda event: clock.advance(1), clock.now_ns)
        way({})
        weigh(account.sitting(1).place(), *[100_000] * 5, between=10**7)
        assert account.events_ns({1: 1000}, Inserted(500, 500)) == pytest.approx(100_050_000, 0.01)
        assert account.events_ns({1: 10**5}, Inserted(500, 500)) == 400_000_000
        assert account.given_ns(way) == 0
        assert account.charged_ns == 3_100_000_000 + 10**9

    def test_what_is_timed_between_others_stands_for_all(self) -> None:
        account = Account(FakeClock())
        took = account.sitting(1)
        took(0, 10**6, 1)
        for lot in range(1, 5):
            for seen in range(lot * 10_000 - 9990, lot * 10_000, 25):
                took(seen * 10**6, seen * 10**6 + lot * 1000, seen)
        cost = account.events_ns({1: 40_000}, Inserted(0, 0))
        assert cost == pytest.approx(10**6 + 10_000 * (1 + 2 + 3 + 4) * 1000, 0.02)

    def test_what_displaces_the_scripts_own_costs_what_it_loads_once_more(self) -> None:
        assert Inserted(500, 50).displacing == 1.9
        assert Inserted(500, 500).displacing == 1
        assert Inserted(50, 500).displacing == Inserted(0, 0).displacing == 1


class TestTurns:
    """A turn of 30 us of voir's own, with an event, in which the script is asked for 500 us."""

    def turns(self, n: int, account: Account, clock: FakeClock) -> Weighed:
        way = Weighed(lambda event: clock.advance(10e-6), clock.now_ns)
        turns = Turns(account, way)
        for _ in range(n):
            clock.advance(20e-6)
            turns.pause()
            clock.advance(500e-6)
            turns.resume()
            way({})
            turns.end()
            clock.advance(500e-6)
            turns.begin()
        return way

    @pytest.mark.parametrize("n", [1, 2, 16, 160])
    def test_a_few_stand_for_all_and_their_events_count_once(self, n: int) -> None:
        clock = FakeClock()
        account = Account(clock)
        with account.script():
            way = self.turns(n, account, clock)
            assert way.events == n
            assert account.given_ns(way) == pytest.approx(n * 30_000)

    def test_events_besides_count_besides(self) -> None:
        clock = FakeClock()
        account = Account(clock)
        with account.script():
            way = self.turns(32, account, clock)
            for _ in range(8):
                way({})
            assert account.given_ns(way) == pytest.approx(32 * 30_000 + 8 * 10_000)
