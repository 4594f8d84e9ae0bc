"""Pairs and events as voirfiles show them: beside, behind and within one another."""

from __future__ import annotations

from typing import Any

import pytest
from probed import probed

from tests.running import Place

SCRIPT = """
    import time

    def forward(batch, depth=0):
        if depth:
            forward(batch, depth - 1)
        return batch

    def train(batches, rest=0):
        for batch in batches:
            out = forward(batch)
            time.sleep(rest)

    def recurse(batches):
        for batch in batches:
            out = forward(batch, 2)

    def micro(batches):
        for batch in batches:
            for part in batch[:4]:
                loss = part

    def data(n):
        return [[1] * 8] * n

    """
FORWARD = "//forward(batch, !#enter as compute_start, !!#exit as compute_end)"
TURNS = "//train(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"
EPOCHS = "//train(!#enter as compute_start, !!#exit as compute_end)"
ENDS = "//train(batch) > #endloop_batch as step"
UPDATES = "//micro(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"
PARTS = "//micro > loss as step"


def measured(
    place: Place, main: str, probes: list[str], *arguments: str, slug: str = "fewer-steps"
) -> tuple[Any, list[str]]:
    """The training as it was measured, and what is said about its steps."""
    return probed(place, f"{SCRIPT}{main}\n", probes, arguments, slug)


@pytest.mark.parametrize(
    ("main", "probes"),
    [
        ("train(data(40), 0.002)", [FORWARD, ENDS]),
        ("train(data(20), 0.002), train(data(20), 0.002)", [ENDS, FORWARD]),
        ("train(data(40))", [TURNS, FORWARD]),
        ("train(data(40))", [EPOCHS, FORWARD]),
        ("train(data(1)), train(data(39))", [EPOCHS, TURNS, FORWARD]),
        ("recurse(data(40))", [FORWARD]),
    ],
)
@pytest.mark.parametrize("stop", [None, 30, 1])
def test_each_turn_is_one_step_and_so_a_stop_counts_them(
    place: Place, main: str, probes: list[str], stop: int | None
) -> None:
    arguments = [] if stop is None else ["--stop", str(stop)]
    task, told = measured(place, main, probes, *arguments)
    turns = 40 if stop is None else stop
    assert (task["steps"], task["items"], told) == (turns, 8 * turns, [])


def more(steps: str) -> list[str]:
    return [f"each pair is a step of train, but events tell of more steps: {steps}"]


@pytest.mark.parametrize(
    ("main", "probes", "steps", "said"),
    [
        ("train(data(80)), train(data(80))", [EPOCHS, ENDS], 2, "33 beside the first pair"),
        ("for _ in 'abcdef': train(data(8))", [ENDS, EPOCHS], 6, "37 beside the first 5 pairs"),
        ("micro(data(40))", [UPDATES, PARTS], 40, "43 beside the first 11 pairs"),
    ],
)
def test_several_events_within_a_pair_are_said_to_be(
    place: Place, main: str, probes: list[str], steps: int, said: str
) -> None:
    task, told = measured(place, main, probes)
    assert (task["steps"], told) == (steps, more(said))


@pytest.mark.parametrize(("metric", "steps"), [("step", 160), ("wrap", 2)])
def test_they_are_not_where_is_said_which_are_the_steps(
    place: Place, metric: str, steps: int
) -> None:
    main = "train(data(80)), train(data(80))"
    task, told = measured(place, main, [EPOCHS, ENDS], "--metric", metric)
    assert (task["steps"], told) == (steps, [])


BEGINS = "//train(batch) > #loop_batch as step"


def test_an_event_before_each_pair_is_said_to_be(place: Place) -> None:
    _, told = measured(place, "train(data(40))", [BEGINS, FORWARD], slug="early-step")
    assert len(told) == 1
    assert "comes before its pair" in told[0]


@pytest.mark.parametrize(
    ("main", "probes", "arguments"),
    [
        ("train(data(40))", [ENDS, FORWARD], []),
        ("train(data(40))", [BEGINS], []),
        ("train(data(40))", [BEGINS, FORWARD], ["--metric", "wrap"]),
        ("train(data(40))", [BEGINS, ENDS, FORWARD], []),
    ],
)
def test_it_is_not_where_events_are_the_ends_or_pairs_the_steps(
    place: Place, main: str, probes: list[str], arguments: list[str]
) -> None:
    _, told = measured(place, main, probes, *arguments, slug="early-step")
    assert told == []
