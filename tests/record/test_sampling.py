"""What is kept of given events."""

from __future__ import annotations

from overseer.record.recording import COMBINATIONS, Sampler
from tests.clocks import FakeClock


def test_the_first_hundred_are_kept_then_one_a_flush_though_threads_count_ahead():
    sampler = Sampler(FakeClock())
    seen = [*range(1, 98), 100, 100, 100, *range(101, 110)]
    lines = [line for n in seen if (line := sampler({"x": n}, n)) is not None]
    assert len(lines) == 101
    assert [line.get("n") for line in lines[-2:]] == [None, 101]
    sampler.flushed()
    assert (sampler({"x": 0}, 300) or {})["n"] == 300
    assert sampler({"x": 0}, 301) is None
    assert sampler({"x": 0, "y": 0}, 1) is not None  # Of other keys, the first.


def test_further_combinations_of_keys_are_sampled_from_the_start():
    sampler = Sampler(FakeClock())
    for number in range(COMBINATIONS):
        assert sampler({str(number): 1}, 1) is not None
    assert [sampler({"one more": 1}, n) is None for n in (1, 2)] == [False, True]


class Model:
    def __repr__(self):
        raise AssertionError("the script's own code runs for a sample")


def test_values_are_taken_as_they_are_now_and_large_ones_named():
    clock = FakeClock()
    sampler = Sampler(clock)
    clock.advance(0.25)
    history, batch = [1], [[*range(1000)], Model()]
    event = {
        "history": history, "batch": batch, "big": dict.fromkeys(range(40)), "model": Model(),
        "gpudata": {"0": {"memory": (1, 2), "load": 0.5}},
    }  # fmt: skip
    line = sampler(event, 1)
    history.append(2)
    assert line == {
        "t": 0.25, "history": [1], "batch": ["<list of 1000>", "<Model>"], "big": "<dict of 40>",
        "model": "<Model>", "gpudata": {"0": {"memory": [1, 2], "load": 0.5}},
    }  # fmt: skip
