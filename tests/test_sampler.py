"""What is kept of given events, whichever thread takes it meanwhile."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from overseer.clock import Clock, FakeClock
from overseer.measure.hearing import BEGAN, ENDED
from overseer.sampler import Sampler


class Interrupted(Sampler):
    """One from which another thread takes while an event is being considered."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.taken: list[dict[str, Any]] = []

    def _line(self, event: dict[str, Any], seen: int) -> dict[str, Any]:
        self.taken += self.take()
        return super()._line(event, seen)


def test_an_event_that_comes_while_others_are_taken_is_kept_for_the_next_time() -> None:
    sampler = Interrupted()
    for number in range(3):
        sampler({"x": number}, number + 1)
    assert [line["x"] for line in [*sampler.taken, *sampler.take()]] == [0, 1, 2]


def test_the_first_hundred_are_kept_though_threads_count_several_before_one_is() -> None:
    sampler = Sampler(Clock())
    seen = [*range(1, 98), 100, 100, 100, *range(101, 110)]
    wants = [sampler({"x": number}, n) for number, n in enumerate(seen)]
    assert [line["x"] for line in sampler.take()] == [*range(100), 100]  # And the next one.
    assert wants == [True] * 99 + [False] * 10


def test_when_a_step_was_that_is_told_of_late_is_voir_s_own_affair() -> None:
    sampler = Sampler(Clock())
    sampler({"step": 1, ENDED: 5, BEGAN: 3, "$wrap": "begin"}, 1)
    (line,) = sampler.take()
    assert line.keys() == {"t", "step", "$wrap"}


class Slow:
    """A batch that takes a millisecond to describe."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def __repr__(self) -> str:
        self._clock.advance(0.001)
        return "all of it"


def test_what_is_costly_to_describe_is_described_now_and_then() -> None:
    """Of each of the first steps of a script it would make a slow one: a warm-up of voir's own."""
    clock = FakeClock()
    sampler, batch = Sampler(clock), Slow(clock)
    for number in range(100):
        sampler({"batch": batch, "loss": 0.5}, number + 1)
        clock.advance(0.010)
    lines = sampler.take()
    assert [line["loss"] for line in lines] == [0.5] * 100
    whole = [line["batch"] for line in lines].count("all of it")
    assert [line["batch"] for line in lines].count("<Slow>") == 100 - whole
    assert 1 < whole < 10


def test_of_each_kind_the_first_is_described() -> None:
    clock = FakeClock()
    sampler = Sampler(clock)
    sampler({"batch": Slow(clock), "other": Slow(clock)}, 1)
    (line,) = sampler.take()
    assert (line["batch"], line["other"]) == ("all of it", "all of it")


def test_small_containers_of_plain_values_are_always_written_out() -> None:
    clock = FakeClock()
    sampler = Sampler(clock)
    event = {"batch": Slow(clock), "$wrap": {"name": "step", "id": 3}, "progress": (2, 10)}
    for number in range(2):
        sampler(event, number + 1)
    lines = sampler.take()
    assert [line["batch"] for line in lines] == ["all of it", "<Slow>"]
    assert [line["$wrap"] for line in lines] == [{"name": "step", "id": 3}] * 2
    assert [line["progress"] for line in lines] == [[2, 10]] * 2


class Odd(type):
    """A class like an expression: it compares, and so has no hash."""

    def __eq__(cls, other: object) -> bool:
        return False


class Unhashable(metaclass=Odd):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (weakref.proxy(Unhashable()), f"<{weakref.ProxyType.__name__} that raises ReferenceError>"),
        (Unhashable(), "<Unhashable that raises TypeError>"),
    ],
    ids=["dead", "unhashable"],
)
def test_one_value_that_cannot_be_looked_at_costs_no_other(value: object, expected: str) -> None:
    sampler = Sampler(FakeClock())
    for number in range(3):
        sampler({"loss": value if number == 1 else 0.5, "step": number}, number + 1)
    lines = sampler.take()
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert [line["loss"] for line in lines] == [0.5, expected, 0.5]


def test_ctrl_c_while_a_value_is_looked_at_is_not_swallowed() -> None:
    class Slow:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Sampler(FakeClock())({"x": Slow()}, 1)


def test_what_monitors_give_at_a_time_is_written_out_each_time() -> None:
    """Dictionaries of pairs, one behind the other, as those of the processor and the memory."""
    clock = FakeClock()
    sampler = Sampler(clock)
    cpu, memory = {"load": 0.5, "memory": [1, 2]}, {"memory": [3, 4], "swap": (5, 6)}
    disk = {f"disk {number}": {"read": number, "written": [number, None]} for number in range(20)}
    for number in range(2):
        for event in ({"batch": Slow(clock)}, {"cpudata": cpu}, {"memdata": memory}):
            sampler(event, number + 1)
        sampler({"iodata": disk}, number + 1)
        clock.advance(0.1)
    lines = sampler.take()
    assert [line["cpudata"] for line in lines if "cpudata" in line] == [cpu] * 2
    swap = {"memory": [3, 4], "swap": [5, 6]}
    assert [line["memdata"] for line in lines if "memdata" in line] == [swap] * 2
    assert all(isinstance(line["iodata"], dict) for line in lines if "iodata" in line)
