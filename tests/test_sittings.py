"""What timed events say of those that were not timed."""

from __future__ import annotations

import pytest

from overseer.sittings import (
    AT_A_TIME,
    AWHILE,
    DENSE,
    DENSE_NS,
    FREQUENT_NS,
    SELDOM,
    Lot,
    Sampled,
    Sitting,
    Sittings,
)


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


def weigh(one: Sitting, *took: int, between: int = 0) -> bool:
    """Tell of events that took so long, with so much in between; whether they were enough."""
    began = 0
    left: int | None = 0
    for ns in took:
        if left is not None and not left:
            left = one(began, began + ns)
        elif left:
            left -= 1
        began += ns + between
    return left is None


class TestLot:
    def test_those_that_differ_all_count_but_what_came_between_does_not(self) -> None:
        lot = Lot()
        for seen in range(1, 101):
            lot(seen * 100_000, seen * 100_000 + (9000 if seen % 10 else 99_000), seen)
        lot(10**9, 10**9 + 10**8, 102)
        assert lot.each_ns == pytest.approx(18_000)
        assert lot.warm == pytest.approx(
            1 / 11
        )  # After those that take long there is next to nothing in between.

    def test_of_events_far_apart_nothing_is_known_of_what_is_between(self) -> None:
        lot = Lot()
        for seen in range(0, 100, 10):
            lot(seen * 1000, seen * 1000 + 1000, seen)
        assert lot.warm == 0


class TestSittings:
    def test_each_sitting_stands_for_the_events_since_that_before(self) -> None:
        sittings = Sittings()
        for fired, ns in ((0, 1000), (100 - AT_A_TIME, 3000), (200 - AT_A_TIME, 5000)):
            sittings.begin(fired)
            weigh(sittings.place(), *[ns] * AT_A_TIME, between=10**6)
        sittings.end(400)
        own = AT_A_TIME * 1000 + (100 - AT_A_TIME) * 3000
        assert sittings.each_ns == pytest.approx((own + 300 * 5000) / 400)
        assert sittings.warm == 0

    def test_the_first_of_a_sitting_is_not_like_the_others(self) -> None:
        sittings = Sittings()
        sittings.begin(0)
        weigh(sittings.place(), 10**6, 90_000, 2000, 2000, 2000)
        sittings.begin(10)
        weigh(sittings.place(), 90_000, 2000, 2000, 2000, 2000)
        sittings.end(20)
        assert (sittings.each_ns, sittings.once_ns) == (2000, 10**6 - 2000)

    def test_more_are_timed_where_they_follow_each_other_at_once(self) -> None:
        one, sparse = Sitting(), Sitting()
        assert not weigh(one, 10**6, *[1000] * (DENSE - 1))
        assert one.counted == [1000] * (DENSE // 2)
        assert one.dense
        assert weigh(sparse, *[1000] * AT_A_TIME, between=FREQUENT_NS)
        assert not sparse.dense

    def test_the_first_of_frequent_events_are_not_like_those_that_follow(self) -> None:
        """As a run begins python has yet to specialise its code, and events are recorded whole."""
        sittings = Sittings()
        sittings.begin(0)
        one = sittings.place()
        beginning = [4_000_000] + [20_000] * (AT_A_TIME + AWHILE - 1)
        assert not weigh(one, *beginning, *[6000] * (DENSE - 1), between=10_000)
        assert one(10**9, 10**9 + 6000) is None
        assert (one.timed, one.passed) == (AT_A_TIME + DENSE, AT_A_TIME + AWHILE + DENSE)
        sittings.end(30_000)
        assert (sittings.each_ns, sittings.warm, sittings.once_ns) == (6000, 1, 4_000_000 - 6000)

    def test_a_second_look_that_has_just_begun_says_nothing_yet(self) -> None:
        sittings = Sittings()
        sittings.begin(0)
        weigh(sittings.place(), *[20_000] * (AT_A_TIME + AWHILE), 6000, between=10_000)
        sittings.end(AT_A_TIME + AWHILE + 1)
        assert (sittings.each_ns, sittings.warm) == (20_000, 0)

    def test_a_sitting_does_not_stand_for_events_that_there_were_not(self) -> None:
        sittings = Sittings()
        weigh(sittings.place(), *[1000] * AT_A_TIME, between=DENSE_NS)
        sittings.begin(50)  # Many of those it would leave alone have yet to come.
        weigh(sittings.place(), *[3000] * AT_A_TIME, between=DENSE_NS)
        sittings.end(100)
        assert sittings.each_ns == 2000

    def test_rare_events_stand_for_themselves(self) -> None:
        sittings = Sittings()
        for fired in range(4):
            sittings.begin(fired)
            weigh(sittings.place(), 5000)
        sittings.end(4)
        assert sittings.each_ns == 5000

    def test_few_of_the_events_are_timed(self) -> None:
        sittings = Sittings()
        assert sittings.due(0)
        sittings.begin(0)
        assert sittings.due(0)
        weigh(sittings.place(), 1000, 1000)
        assert not sittings.due(2 * SELDOM - 1)
        assert sittings.due(2 * SELDOM)

    def test_a_sitting_without_events_leaves_them_to_the_next(self) -> None:
        sittings = Sittings()
        sittings.begin(0)
        sittings.place()
        sittings.begin(50)
        weigh(sittings.place(), *[1000] * AT_A_TIME)
        sittings.end(100)
        assert sittings.each_ns == 1000

    def test_what_came_between_is_left_out(self) -> None:
        sittings = Sittings()
        weigh(sittings.place(), *[1000] * 20, 10**7, *[1000] * 20)
        sittings.end(100)
        assert sittings.each_ns == 1000

    def test_memory_does_not_grow(self) -> None:
        sittings = Sittings()
        for fired in range(10_000):
            sittings.begin(fired)
            weigh(sittings.place(), 1000)
        assert len(sittings._rare) < 1000
        assert len(sittings._sitting) == 1
