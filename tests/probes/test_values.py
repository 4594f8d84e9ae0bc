"""A listener that is alone is given values, not events; it hears what it would beside others."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest

from overseer.clock import Clock
from overseer.errors import Problem
from overseer.measure.losses import Losses
from overseer.measure.steps import StepModel
from overseer.probes import PlacedProbe
from overseer.stream import EventStream

from .conftest import Few, Make
from .scripts import Script

SOURCE = """
class Batch:
    def __init__(self, n):
        self.shape = (n, 3)

def train(batches):
    for inp in batches:
        if inp.shape[0] == 13:
            continue
        yield inp

def leave(batches):
    for inp in batches:
        raise ValueError(inp)

def both(n):
    one, other = train([Batch(8)] * n), train([Batch(4)] * n)
    for _ in zip(one, other):
        try:
            leave([Batch(2)])
        except ValueError:
            pass
    return n

def nested(n):
    for inp in [Batch(n)]:
        if n > 1:
            nested(n - 1)
"""
STEP = "(inp as batch) > #endloop_inp as step"
PAIR = "(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
FLIPPED_PAIR = "(!#loop_inp as compute_start, !!#endloop_inp as compute_end, inp as batch)"
WITH_MORE = "(inp as batch, batches as more) > #endloop_inp as step"
LONELY = "> #endloop_inp as step"
WAYS = (STEP, PAIR, FLIPPED_PAIR, WITH_MORE, LONELY)


class Heard:
    """A script whose probe's events go to a stream that a step model listens to."""

    def __init__(self, made: Script, selector: str, *, alone: bool) -> None:
        self.problems: list[Problem] = []
        self.stream = EventStream(self.problems.append)
        self.model = StepModel(Clock())
        self.items: list[int | None] = []
        self.events: list[dict[str, Any]] = []
        self.model.sinks.append(lambda steps: self.items.extend(s.items for s in steps))
        for listener, keys in self.model.listeners():
            self.stream.listen(listener, *keys)
        if not alone:
            self.stream.listen(self.events.append)
        self.made = made
        self.placed: PlacedProbe = made.placed(selector)
        self.placed.listen(self.stream.outlet(self.placed.refresh))
        made.load()

    def call(self, code: str) -> tuple[Any, ...]:
        """Everything there is to hear."""
        self.made.call(code)
        self.model.finish()
        assert (self.problems, self.made.problems) == ([], [])
        return self.items, self.placed.fired, self.stream.events, self.model.notes


@pytest.mark.parametrize("call", ["list(train([Batch(8)] * 40 + [Batch(13)]))", "both(5)"])
@pytest.mark.parametrize("selector", WAYS)
def test_it_hears_the_same(script: Make, selector: str, call: str) -> None:
    alone = Heard(script(SOURCE), f"//train{selector}", alone=True).call(call)
    beside = Heard(script(SOURCE), f"//train{selector}", alone=False).call(call)
    assert alone == beside
    assert alone[1] >= 10


DELETES = SOURCE.replace("            continue", "            del inp\n            continue")


@pytest.mark.parametrize("selector", WAYS)
def test_it_hears_the_same_of_turns_that_delete_their_batch(script: Make, selector: str) -> None:
    call = "list(train(([Batch(13)] + [Batch(8)] * 3) * 5))"
    alone = Heard(script(DELETES), f"//train{selector}", alone=True).call(call)
    beside = Heard(script(DELETES), f"//train{selector}", alone=False).call(call)
    assert alone == beside
    assert alone[1] == alone[3] == (40 if "compute" in selector else 20)
    if selector == STEP:
        assert alone[0] == [None, 8, 8, 8] * 5


@pytest.mark.parametrize("selector", [PAIR, FLIPPED_PAIR])
def test_each_call_has_its_own_pairs(script: Make, selector: str) -> None:
    calls = ("nested(6)", "//nested", 12), ("both(5)", "//leave", 10)
    for call, function, ends in calls:
        alone = Heard(script(SOURCE), function + selector, alone=True).call(call)
        beside = Heard(script(SOURCE), function + selector, alone=False).call(call)
        assert alone == beside
        assert alone[3] == ends


@pytest.mark.parametrize(
    ("selector", "keys"),
    [
        (STEP, {"batch", "step"}),
        (PAIR, {"batch", "compute_start", "$wrap"}),
        (FLIPPED_PAIR, {"batch", "compute_start", "$wrap"}),
    ],
)
def test_whoever_samples_the_stream_gets_whole_events(
    script: Make, selector: str, keys: set[str]
) -> None:
    heard = Heard(script(SOURCE), f"//train{selector}", alone=True)
    sampled: list[dict[str, Any]] = []

    def sampler(event: dict[str, Any], n: int) -> bool:
        sampled.append(event)
        return n < 3

    heard.stream.sampler = sampler
    heard.stream.clear()
    for listener, wanted in heard.model.listeners():
        heard.stream.listen(listener, *wanted)
    items, *_ = heard.call("list(train([Batch(8)] * 10))")
    assert items == [8] * 10
    first = [event for event in sampled if event.keys() == keys]
    assert len(first) == 3
    assert [event["batch"].shape for event in first] == [(8, 3)] * 3
    assert {event.get("$wrap", {}).get("step") for event in first} <= {None, "begin"}


def test_another_that_begins_to_listen_is_heard_from_the_next_event_on(script: Make) -> None:
    heard = Heard(script(SOURCE), f"//train{PAIR}", alone=True)
    heard.made.call("globals().update(running=train([Batch(8)] * 4))")
    heard.made.call("next(running)")
    listening = heard.stream.listen(heard.events.append)
    heard.made.call("next(running)")
    listening.dispose()
    items, *_ = heard.call("list(running)")
    assert items == [8] * 4
    assert [event["$wrap"]["step"] for event in heard.events] == ["end", "begin"]
    assert "compute_end" in heard.events[0]


@pytest.mark.parametrize("selector", [STEP, PAIR])
def test_events_are_timed_without_a_difference(script: Make, selector: str) -> None:
    heard = Heard(script(SOURCE), f"//train{selector}", alone=True)
    sittings = Few()
    heard.made.engine.weigh(lambda: 0, lambda number: sittings)
    items, *_ = heard.call("list(train([Batch(8)] * 10))")
    assert items == [8] * 10
    assert len(sittings.took) == 3 * len(heard.placed.lanes)


def test_a_model_that_fails_is_reported_and_the_script_goes_on(script: Make) -> None:
    heard = Heard(script(SOURCE), f"//train{PAIR}", alone=True)
    heard.model.counts.tensors = None  # type: ignore[assignment]
    heard.placed.refresh()
    heard.made.call("list(train([Batch(8)] * 10))")
    (problem,) = heard.problems
    assert "a subscriber failed: TypeError" in problem.what
    assert heard.made.problems == []


def test_a_size_that_cannot_be_read_any_more_is_not_known(script: Make) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", alone=True)
    items, *_ = heard.call("list(train([Batch(8)] * 5 + [type('Odd', (Batch,), {})(4), Batch(3)]))")
    assert items == [8] * 5 + [4, 3]


def test_events_that_inherit_keys_carry_them(script: Make) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", alone=True)
    inherited: ContextVar[dict[str, Any]] = ContextVar("inherited")
    inherited.set({})
    heard.stream.inherited = inherited
    tasks: list[str] = []
    heard.model.sinks.append(lambda steps: tasks.extend(step.task for step in steps))
    heard.made.call("list(train([Batch(8)] * 3))")
    token = inherited.set({"task": "test"})
    heard.made.call("list(train([Batch(8)] * 2))")
    inherited.reset(token)
    heard.made.call("list(train([Batch(8)] * 3))")
    heard.model.finish()
    assert sorted(tasks) == ["test"] * 2 + ["train"] * 6
    assert heard.stream.events == heard.placed.fired == 8


LOSSES = """
class Tensor:
    def __init__(self, value):
        self.value = value

    def detach(self):
        return float(self.value)

def train(n):
    for turn in range(n):
        loss = Tensor(turn) if turn % 3 else turn + 0.5
    loss = None
"""


@pytest.mark.parametrize("alone", [True, False])
def test_losses_are_heard_whether_alone_or_beside_others(script: Make, alone: bool) -> None:
    problems: list[Problem] = []
    stream = EventStream(problems.append)
    losses, events = Losses(problems.append), []
    stream.listen(losses, "loss")
    if not alone:
        stream.listen(events.append)
    made = script(LOSSES)
    placed = made.placed("//train > loss")
    placed.listen(stream.outlet(placed.refresh))
    made.load()
    made.call("train(10)")
    losses.read()
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.n) == (0.5, 9.5, 0.5, 11)
    assert (placed.fired, stream.events, len(events)) == (11, 11, 0 if alone else 11)
    assert [one.what for one in problems] == ["it can't be read: NoneType is not a number"]
    assert made.problems == []


def test_whoever_samples_the_stream_gets_whole_losses(script: Make) -> None:
    stream = EventStream(lambda problem: None)
    sampled: list[dict[str, Any]] = []
    stream.sampler = lambda event, n: bool(sampled.append(event))
    stream.listen(Losses(), "loss")
    made = script(LOSSES)
    placed = made.placed("//train > loss")
    placed.listen(stream.outlet(placed.refresh))
    made.load()
    made.call("train(10)")
    assert sampled == [{"loss": 0.5}]
    stream.anew()
    made.call("train(1)")
    assert sampled == [{"loss": 0.5}, {"loss": 0.5}]
    assert (placed.fired, stream.events) == (13, 13)
