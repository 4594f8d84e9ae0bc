"""Pairs that are more than the steps that events tell of: each pair is a step, and that is said."""

from __future__ import annotations

import pytest
from probed import probed

from tests.running import Place

TRAIN = """
    from voir import iterate

    def half(batch):
        return batch

    def train(batches, every):
        for turn, batch in enumerate(batches, 1):
            first = half(batch)
            if turn % every == 0:
                update = turn

    def pretrain(batches):
        for batch in batches:
            pass

    def data(n):
        return [[1] * 8] * n

    """
HALVES = "//half(batch, !#enter as compute_start, !!#exit as compute_end)"
TURNS = "//train(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"
BEFORE = "//pretrain(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"
UPDATES = "//train(batch) > update as step"
ENDS = "//train(batch) > #endloop_batch as step"


def measured(place: Place, main: str, probes: list[str], *arguments: str) -> tuple[int, list[str]]:
    """The steps of the training, and what is said about their number."""
    task, told = probed(place, f"{TRAIN}{main}\n", probes, arguments, "fewer-steps")
    return task["steps"], told


def fewer(steps: str) -> str:
    return f"each pair is a step of train, but events tell of fewer steps: {steps} pairs"


@pytest.mark.parametrize(
    ("main", "probes", "steps", "said"),
    [
        ("train(data(24), 4)", [UPDATES, TURNS], 24, "6 beside 24"),
        ("train(data(24), 2)", [TURNS, UPDATES], 24, "12 beside 24"),
        ("train(iterate('train', data(24), report_batch=True), 4)", [UPDATES], 24, "6 beside 24"),
        ("train(data(200), 4)", [UPDATES, TURNS], 200, "32 beside the first 127"),
        ("train(data(300), 100)", [UPDATES, TURNS], 300, "3 beside 300"),
    ],
)
def test_steps_that_are_rarer_than_pairs_are_said_to_be(
    place: Place, main: str, probes: list[str], steps: int, said: str
) -> None:
    assert measured(place, main, probes) == (steps, [fewer(said)])


def test_so_are_turns_in_which_there_are_several_pairs(place: Place) -> None:
    main = "for batch in data(20):\n        half(batch), train([batch], 1)"
    assert measured(place, main, [HALVES, ENDS]) == (40, [fewer("20 beside 40")])


@pytest.mark.parametrize(("metric", "steps"), [("step", 6), ("wrap", 24)])
def test_what_helps_does(place: Place, metric: str, steps: int) -> None:
    found = measured(place, "train(data(24), 4)", [UPDATES, TURNS], "--metric", metric)
    assert found == (steps, [])


@pytest.mark.parametrize(
    ("main", "probes", "steps"),
    [
        ("train(data(24), 1)", [ENDS, TURNS], 24),
        ("train(data(24), 1)", [UPDATES, TURNS], 24),
        ("train(data(24), 1)", [ENDS, HALVES], 24),
        ("train(data(200), 1)", [ENDS, HALVES], 200),
        ("train(data(24), 4)", [TURNS], 24),
        ("train(data(24), 4)", [UPDATES], 6),
        ("pretrain(data(90)), train(data(20), 1)", [BEFORE, ENDS], 110),
        ("train(data(20), 1), pretrain(data(90))", [ENDS, BEFORE], 110),
    ],
)
def test_where_each_pair_has_its_step_or_a_loop_of_its_own_nothing_is(
    place: Place, main: str, probes: list[str], steps: int
) -> None:
    assert measured(place, main, probes) == (steps, [])
