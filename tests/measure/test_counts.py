"""An event's items: those it states, those of its batch, and why there are none."""

from __future__ import annotations

from typing import Any

import pytest

from overseer.measure.counts import Counts
from overseer.measure.items import MOST
from overseer.measure.spans import NOTHING, Span
from overseer.measure.summary import Tasks

from .program import Program, Tensor


class Huge:
    """What says of itself that it is longer than anything."""

    def __len__(self) -> int:
        return 2**62


def counted(
    event: dict[str, Any], times: int = 1, size: Any = None
) -> tuple[int | None, list[str]]:
    """How many items the event has, asked for twice, and the reasons."""
    told: list[str] = []
    counts = Counts(times, size, "auto", told.append)
    first, second = counts(event, "train"), counts(event, "train")
    assert first == second
    return first, told[:1]


@pytest.mark.parametrize(
    ("event", "size"),
    [
        ({"batch": Huge()}, None),
        ({"batch": Tensor(2**62)}, None),
        ({"batch_size": 2**62}, None),
        ({"batch_size": 10**400}, None),
        ({"batch": [1]}, lambda batch: 2**62),
        ({"batch": [1]}, 2**62),
        ({"batch": {"num_tokens": 2**62, "x": Tensor(2**62)}}, None),
    ],
    ids=["length", "shape", "stated", "endless", "function", "number", "tokens"],
)
@pytest.mark.parametrize("times", [1, 4, 10**6])
def test_more_than_a_batch_can_hold_is_no_size(
    event: dict[str, Any], size: Any, times: int
) -> None:
    items, told = counted(event, times, size)
    assert items is None
    assert "more than a batch can hold" in told[0] or "too large" in told[0]


def test_a_size_that_is_too_large_only_when_multiplied_says_so() -> None:
    items, told = counted({"batch_size": MOST}, 4)
    assert items is None
    assert told == ["1e+12, counted 4 times, is more than it can hold"]
    assert counted({"batch_size": MOST // 4}, 4) == (MOST, [])


def test_steps_of_impossible_batches_are_steps_without_items() -> None:
    for form in ({"batch": Huge()}, {"batch_size": 2**62}):
        program = Program("step", multiplier=4)
        for _ in range(100):
            program.clock.advance(0.01)
            program.give(step=True, **form)
        program.finish()
        section = program.section()
        assert (section["steps"], section["units"]) == (100, "steps")
        assert len(program.problems) == 1


def test_a_batch_size_that_is_none_is_told_like_any_other_that_is_no_number() -> None:
    assert counted({"batch_size": None}) == (None, ["NoneType is not a number"])
    assert counted({"batch_size": None, "batch": [1, 2]}) == (2, [])
    assert counted({"step": 1}) == (None, [])
    assert counted({"batch_size": float("nan")}) == (None, ["nan is not a whole number"])


def test_the_first_event_of_a_task_that_shows_no_batch_is_remembered_by_its_keys() -> None:
    counts = Counts(1, None, "auto", list)
    for event in ({"bach": [1], "step": 1}, {"step": 2}):
        counts(event, "train")
    counts({"batch": [1], "step": 1}, "sized")
    counts({"batch": None, "step": 1}, "none")
    for i in range(1000):
        counts({"step": 1}, f"task {i}")
    assert counts.bare["train"] == ["bach", "step"]
    assert counts.bare.keys().isdisjoint({"sized", "none"})
    assert len(counts.bare) == 256


@pytest.mark.parametrize("size", [16, 16.0, True])
def test_a_number_stands_for_every_batch(size: Any) -> None:
    assert counted({"batch": Huge()}, 2, size) == (2 * int(size), [])
    assert counted({"batch_size": 3}, 2, size) == (2 * int(size), [])
    assert counted({"step": 1}, 2, size) == (2 * int(size), [])


@pytest.mark.parametrize("size", [-1, "16", 1.5, 2**62])
def test_a_number_that_no_batch_has_is_told(size: Any) -> None:
    items, told = counted({"batch": [1, 2]}, 1, size)
    assert (items, len(told)) == (None, 1)


# What is left out


@pytest.mark.parametrize("skip", [NOTHING, Span(seconds=0.0)])
def test_nothing_left_out_is_not_the_same_as_finding_the_warm_up(skip: Span) -> None:
    program, all_of_them = Program("loader, step"), Tasks(skip)
    program.model.sinks.append(all_of_them)
    program.epoch(100, compute=lambda step: 0.1 if step < 20 else 0.01)
    program.finish()
    found, told = program.section()["rate"], all_of_them.section()["train"]["rate"]
    assert (found["n"], found["skipped"]) == (80, 20)
    assert (told["n"], told["skipped"]) == (100, 0)
    assert told["steady"] < found["steady"]


def test_a_span_longer_than_any_run_leaves_out_everything() -> None:
    from overseer.measure.spans import parse_span

    for text in ("1e300s", "1e290s", "1.5e308s", "1e300"):
        program, tasks = Program("step"), Tasks(parse_span(text, "--skip"))
        program.model.sinks.append(tasks)
        program.epoch(20)
        program.finish()
        assert tasks.section()["train"]["rate"]["n"] == 0
