"""The ``tasks`` section holds DESIGN.md's keys, only what is known, and fits any run."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import pytest

from overseer.clock import FakeClock
from overseer.measure.losses import Losses
from overseer.measure.rates import Rates
from overseer.measure.spans import Span
from overseer.measure.steps import StepModel
from overseer.measure.summary import Tasks

from .program import Program, Tensor

KEYS = {
    "steps": None,
    "items": None,
    "units": None,
    "loss": {"first", "last", "min"},
    "first_step_seconds": None,
    "rate": {"wall", "steady", "median", "q1", "q3", "n", "skipped", "clock"},
    "step_seconds": {"median", "q1", "q3", "course"},
    "steady": {"verdict", "from_step"},
    "loading": {"seconds", "share"},
    "compute": {"seconds", "share"},
    "pause": {"seconds", "count"},
}


def test_a_run_of_which_all_is_known_has_every_key_of_the_contract() -> None:
    program, losses = Program("loader, pair"), Losses()
    program.epoch(100)
    losses({"loss": 2.0})
    losses.read()
    program.finish()
    section = program.tasks.section("perf_counter", losses.summary())["train"]
    assert {
        key: set(value) if isinstance(value, dict) else None for key, value in section.items()
    } == KEYS


def test_what_is_not_known_is_absent() -> None:
    program = Program("step")
    program.give(step=True)
    program.finish()
    assert program.tasks.section() == {
        "train": {
            "steps": 1,
            "units": "steps",
            "rate": {"n": 0, "skipped": 0, "clock": "perf_counter"},
            "steady": {"verdict": "too few steps"},
            "pause": {"seconds": 0.0, "count": 0},
        }
    }


def test_a_loss_without_steps_is_told_all_the_same() -> None:
    losses = Losses()
    losses({"loss": 2.0})
    losses.read()
    assert Tasks().section(losses=losses.summary()) == {
        "train": {"loss": {"first": 2.0, "last": 2.0, "min": 2.0}}
    }


def test_losses_that_are_not_finite_are_counted_and_leave_the_lowest_alone() -> None:
    losses = Losses()
    for loss in (2.0, float("nan"), 1.0, float("inf"), 3.0):
        losses({"loss": loss})
    losses.read()
    assert Tasks().section(losses=losses.summary()) == {
        "train": {"loss": {"first": 2.0, "last": 3.0, "min": 1.0, "not_finite": 2}}
    }


def test_a_run_without_steps_has_no_tasks() -> None:
    assert Tasks().section() == {}


def test_warm_up_is_in_the_wall_rate_and_in_no_other() -> None:
    program = Program("loader, step")
    program.epoch(100, compute=lambda step: 0.5 if step < 20 else 0.010)
    program.finish()
    section = program.section()
    assert section["steady"] == {"verdict": "steady", "from_step": 20}
    rate = section["rate"]
    assert (rate["n"], rate["skipped"]) == (80, 20)
    assert rate["steady"] == rate["median"] == pytest.approx(32 / 0.014)
    assert rate["wall"] == pytest.approx(3200 / (0.4 + 20 * 0.5 + 80 * 0.01))
    assert section["loading"] == {
        "seconds": pytest.approx(80 * 0.004), "share": pytest.approx(4 / 14)
    }  # fmt: skip


def test_the_time_of_a_step_is_told_with_its_course() -> None:
    program = Program("loader, step")
    program.epoch(450, compute=lambda step: 0.5 if step < 20 else 0.010 + step % 2 * 0.002)
    program.finish()
    times = program.section()["step_seconds"]
    found = times["q1"], times["median"], times["q3"]
    assert found == pytest.approx((0.014, 0.015, 0.016), abs=0.0011)
    course = times["course"]
    assert (course["steps"], len(course["means"])) == (5, 86)
    assert all(0.0145 < mean < 0.0155 for mean in course["means"])


def test_a_run_that_never_settles_has_no_steady_rate() -> None:
    program = Program("loader, step")
    program.epoch(300, compute=lambda step: 0.01 + step * 0.001)
    program.finish()
    section = program.section()
    assert section["steady"] == {"verdict": "never steady"}
    assert "steady" not in section["rate"]
    assert section["rate"]["n"] == 300


@pytest.mark.parametrize("skip", [Span(steps=30), Span(seconds=30 * 0.014 - 0.001)])
def test_a_fixed_skip_takes_the_place_of_what_is_found(skip: Span) -> None:
    program, tasks = Program("loader, step"), Tasks(skip)
    program.model.sinks.append(tasks)
    program.epoch(100)
    program.finish()
    rate = tasks.section()["train"]["rate"]
    assert (rate["n"], rate["skipped"]) == (70, 30)
    assert rate["steady"] == pytest.approx(32 / 0.014)


@pytest.mark.parametrize(("steps", "late"), [(5, True), (19, False), (30, False)])
def test_a_skip_that_ends_in_the_warm_up_is_told(steps: int, late: bool) -> None:
    program, tasks = Program("loader, step"), Tasks(Span(steps=steps))
    program.model.sinks.append(tasks)
    program.epoch(100, compute=lambda step: 0.5 if step < 20 else 0.010)
    program.finish()
    section = tasks.section()["train"]
    assert section["rate"]["skipped"] == steps
    assert section["rate"]["n"] == 100 - steps
    assert section["steady"].get("late", False) == late


def test_how_long_steps_were_made_begins_behind_the_first_step_of_the_task_a_run_is_about() -> None:
    program = Program("step")
    assert program.tasks.stepped() is None
    for task, steps in (("evaluate", 50), ("train", 30), ("evaluate", 20)):
        program.task = task
        program.clock.advance(9.0)
        for _ in range(steps):
            program.clock.advance(0.01)
            program.give(step=True, batch_size=8)
    program.finish()
    begin, end = program.tasks.stepped() or (0, 0)
    assert begin == 5_000_000_000 + 9_000_000_000 * 2 + 510_000_000
    assert end - begin == 290_000_000


def test_a_last_smaller_batch_counts_with_its_own_items() -> None:
    program = Program("step")
    for size in [32] * 20 + [7]:
        program.clock.advance(0.01)
        program.give(step=True, batch=Tensor(size))
    program.finish()
    section = program.section()
    assert section["items"] == 20 * 32 + 7
    assert section["rate"]["wall"] == pytest.approx((19 * 32 + 7) / 0.2)


def test_the_quartiles_are_those_of_the_steps() -> None:
    program = Program("step")
    for i in range(401):
        program.clock.advance((0.01, 0.02, 0.04, 0.05)[i % 4])
        program.give(step=True, batch_size=8)
    program.finish()
    rate = program.section()["rate"]
    assert rate["q1"] < rate["median"] < rate["q3"]
    assert rate["median"] == pytest.approx((200 + 400) / 2, rel=0.01)


def test_a_verdict_is_not_sought_anew_for_every_look() -> None:
    program = Program("pair")
    program.epoch(200)
    program.model.drain()
    record = program.tasks.records["train"]
    first = record.verdict()
    program.epoch(10)
    program.finish()
    assert record.verdict() is first
    assert record.verdict(growth=1.0) is not first


def test_memory_is_flat_over_a_million_steps() -> None:
    """What a hundred thousand steps need, a million need; blocks merge, samples are replaced."""
    clock = FakeClock()
    tasks, rates, losses = Tasks(), Rates(lambda reading: None, Span(seconds=1.0)), Losses()
    model = StepModel(clock)
    model.sinks += [tasks, rates]
    sizes = []
    for _ in range(2):
        for _ in range(500_000):
            clock._now += 1_000_000
            model.on_step({"step": True, "batch_size": 32})
        for _ in range(5000):
            losses({"loss": 1.0})
        sizes.append(sum(size_of(each) for each in (model, tasks, rates, losses)))
    model.finish()
    assert tasks.records["train"].section("")["items"] == 32_000_000
    assert sizes[1] <= 1.1 * sizes[0]
    assert sizes[1] < 3_000_000


def size_of(thing: Any, seen: dict[int, Any] | None = None) -> int:
    """Bytes of everything an object of voir's holds."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(
        thing, type | FakeClock | FunctionType | BuiltinFunctionType
    ):
        return 0
    seen[id(thing)] = thing
    held: list[Any] = []
    if isinstance(thing, dict):
        held = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        held = list(thing)
    elif not isinstance(thing, str | int | float | array | MethodType):
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        held = [getattr(thing, name, None) for name in slots] + [getattr(thing, "__dict__", {})]
    return sys.getsizeof(thing) + sum(size_of(each, seen) for each in held)


@pytest.mark.parametrize("form", ["pair", "pair, step", "wrap"])
def test_a_first_step_whose_batch_was_waited_for_unseen_is_not_in_the_wall_rate(form: str) -> None:
    program = Program(form)
    program.epoch(3, load=0.09, compute=0.01)
    program.finish()
    section = program.section()
    assert (section["steps"], section["items"]) == (3, 96)
    assert section["first_step_seconds"] == pytest.approx(0.01)
    assert section["rate"]["wall"] == pytest.approx(64 / 0.2)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_that_begin_one_after_another_lose_one_first_step(threads: int) -> None:
    program = Program("pair")
    for thread in range(threads):
        program.thread = thread
        program.epoch(10, load=0.01, compute=0.01)
    program.finish()
    seconds = 0.01 + threads * 10 * 0.02 - 0.02
    wall = program.section()["rate"]["wall"]
    assert wall == pytest.approx((threads * 10 - 1) * 32 / seconds, rel=0.07)
