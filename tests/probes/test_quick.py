"""Inserted code notes events by itself while nothing stands against it; all is as it ever was."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count, groupby
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from overseer.clock import Clock
from overseer.errors import Problem
from overseer.measure.losses import Losses
from overseer.measure.steps import StepModel
from overseer.probes import PlacedProbe, quick
from overseer.stream import EventStream

from .conftest import Few, Make
from .scripts import Script

SOURCE = """
class Batch:
    def __init__(self, n):
        self.shape = (n, 3)

def train(batches, turn):
    for inp in batches:
        if inp == 13:
            continue
        turn()
    return len(batches)

def nested(n, turn):
    for inp in [Batch(n)]:
        turn()
        if n > 1:
            nested(n - 1, turn)

class Loss:
    is_cpu = True

    def __init__(self, value):
        self.value = value

    def item(self):
        return float(self.value)

    def numel(self):
        return 1

    def detach(self):
        return self

def learn(losses, turn):
    for each in losses:
        loss = each
        turn()
"""
STEP = "(inp as batch) > #endloop_inp as step"
PAIR = "(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
FLIPPED_PAIR = "(!#loop_inp as compute_start, !!#endloop_inp as compute_end, inp as batch)"
SIXTY = "[Batch(8)] * 60"


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """What is asked of torch, for the kinds of the script."""
    made = ModuleType("torch")
    base = SimpleNamespace(
        size=lambda batch, at: (type(batch).__name__ == "Batch" and batch.shape[at]) or 1 // 0,
        item=lambda loss: loss.item(),
        is_cpu=property(lambda loss: loss.is_cpu),
        detach=lambda loss: loss.detach(),
    )
    made._C = SimpleNamespace(TensorBase=base)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", made)
    yield made


class Heard:
    """A script whose probe's events go to a stream that a step model listens to.

    Args:
        made: The script.
        selector: The probe's.
        torch: What stands for it.
        after: So many turns come the ordinary way first; all, if it is negative.
    """

    def __init__(self, made: Script, selector: str, torch: Any, after: int = 5) -> None:
        self.problems: list[Problem] = []
        self.stream = EventStream(self.problems.append)
        self.model, self.losses = StepModel(Clock()), Losses(self.problems.append)
        self.items: list[int | None] = []
        self.model.sinks.append(lambda steps: self.items.extend(s.items for s in steps))
        for listener, keys in [*self.model.listeners(), (self.losses, ("loss",))]:
            self.stream.listen(listener, *keys)
        self.made, self._after, self._turns, self._now = made, after, 0, count(1)
        self.placed: PlacedProbe = made.placed(selector)
        self.placed.listen(self.stream.outlet(self.placed.refresh))
        made.load()
        main: Any = made.main
        torch.Tensor = main.Loss if "loss" in selector else main.Batch
        main.turn = self.turn

    def turn(self) -> None:
        """Every few turns it is considered; a second seems to lie between them."""
        self._turns += 1
        if 0 <= self._after <= self._turns and self._turns % 5 == 0:
            self.consider()

    def consider(self) -> None:
        self.made.engine.hasten(next(self._now) * 1_000_000_000)

    def call(self, code: str) -> tuple[Any, ...]:
        """Everything there is to hear."""
        self.made.call(code)
        self.model.finish()
        self.losses.read()
        assert (self.problems, self.made.problems) == ([], [])
        return (
            self.items, self.placed.fired, self.stream.events, self.model.notes,
            self.losses.summary(),
        )  # fmt: skip

    @property
    def noted(self) -> int:
        """How many events inserted code has noted by itself."""
        return sum(self.made.engine.noted.values())


@pytest.mark.parametrize(
    ("selector", "call", "least"),
    [
        (f"//train{STEP}", f"train({SIXTY}, turn)", 40),
        (f"//train{STEP}", "train([Batch(n % 7 + 1) for n in range(60)], turn)", 40),
        (f"//train{PAIR}", f"train({SIXTY}, turn)", 80),
        (f"//train{FLIPPED_PAIR}", f"train({SIXTY}, turn)", 80),
        (f"//train{PAIR}", f"[train({SIXTY[:-2]}10, turn) for _ in range(6)]", 60),
        (f"//nested{PAIR}", "nested(40, turn)", 20),
        ("//learn > loss", "learn([Loss(n) for n in range(60)], turn)", 40),
    ],
)
def test_all_is_heard_as_ever(
    script: Make, torch: Any, selector: str, call: str, least: int
) -> None:
    plain = Heard(script(SOURCE), selector, torch, after=-1)
    expected = plain.call(call)
    swift = Heard(script(SOURCE), selector, torch)
    assert swift.call(call) == expected
    assert plain.noted == 0
    assert swift.noted >= least
    assert expected[1] >= 40


@pytest.mark.parametrize(
    ("selector", "call"),
    [
        (f"//train{STEP}", "train([Batch(8), [1, 2], Batch(4)] * 20, turn)"),
        (f"//train{STEP}", "train([Batch(8)] * 30 + [Batch(0)] + [Batch(4)] * 30, turn)"),
        (f"//train{PAIR}", "train([Batch(8)] * 30 + [[1, 2, 3], 13] + [Batch(4)] * 30, turn)"),
        ("//learn > loss", "learn([Loss(n) if n % 4 else n + 0.5 for n in range(60)], turn)"),
    ],
)
def test_what_it_cannot_note_comes_the_ordinary_way(
    script: Make, torch: Any, selector: str, call: str
) -> None:
    expected = Heard(script(SOURCE), selector, torch, after=-1).call(call)
    assert Heard(script(SOURCE), selector, torch).call(call) == expected


@pytest.mark.parametrize("selector", [STEP, PAIR, FLIPPED_PAIR])
@pytest.mark.parametrize("often", [2, 20])
def test_a_turn_that_deletes_its_batch_comes_the_ordinary_way(
    script: Make, torch: Any, selector: str, often: int
) -> None:
    source = SOURCE.replace("            continue", "            del inp")
    call = f"train(([13] + [Batch(8)] * {often - 1}) * {120 // often}, turn)"
    expected = Heard(script(source), f"//train{selector}", torch, after=-1).call(call)
    swift = Heard(script(source), f"//train{selector}", torch)
    assert swift.call(call) == expected
    assert expected[1] == (120 if selector == STEP else 240)
    assert swift.noted > 0


def test_where_most_cannot_be_noted_it_is_tried_no_more(script: Make, torch: Any) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", torch)
    heard.call("train([Batch(8)] * 5 + [[1, 2, 3]] * 60, turn)")
    before = heard.noted
    heard.call(f"train({SIXTY}, turn)")
    assert heard.noted == before < 20
    assert heard.items == [8] * 5 + [3] * 60 + [8] * 60


def test_a_loop_that_does_nothing_else_is_left_to_the_listener(script: Make, torch: Any) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", torch)
    heard._now = count()  # As if all of them came within no time.
    heard.consider = lambda: heard.made.engine.hasten(1_000_000 + next(heard._now))  # type: ignore[method-assign]
    heard.call(f"train({SIXTY}, turn)")
    assert heard.noted == 0


def test_another_that_begins_to_listen_is_heard_from_the_next_event_on(
    script: Make, torch: Any
) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", torch)
    heard.made.call(f"train({SIXTY}, turn)")
    noted, events = heard.noted, []
    listening = heard.stream.listen(events.append)
    heard.made.call(f"train({SIXTY}, turn)")
    assert (len(events), heard.noted) == (60, noted)
    listening.dispose()
    heard.call(f"train({SIXTY}, turn)")
    assert heard.noted > noted
    assert heard.items == [8] * 180


def test_whoever_samples_the_stream_gets_an_event_each_time(script: Make, torch: Any) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", torch)
    sampled: list[int] = []
    heard.stream.sampler = lambda event, n: sampled.append(n)
    for _ in range(3):
        heard.stream.anew()
        heard.made.call(f"train({SIXTY}, turn)")
    assert sampled == [1, 61, 121]
    assert heard.noted > 120
    assert heard.call("train([], turn)")[1:3] == (180, 180)


@pytest.mark.parametrize("selector", [STEP, PAIR])
def test_events_are_timed_meanwhile(script: Make, torch: Any, selector: str) -> None:
    heard = Heard(script(SOURCE), f"//train{selector}", torch)
    heard.made.call(f"train({SIXTY}, turn)")
    noted, sittings = heard.noted, Few()
    heard.made.engine.weigh(lambda: 0, lambda number: sittings)
    heard.call(f"train({SIXTY}, turn)")
    assert len(sittings.took) == 3 * len(heard.placed.lanes)
    assert heard.noted >= noted + 50
    assert heard.items == [8] * 120


@pytest.mark.parametrize("end", ["silence", "close"])
def test_nothing_is_noted_behind_the_end(script: Make, torch: Any, end: str) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", torch)
    heard.made.call(f"train({SIXTY}, turn)")
    before = heard.model.notes

    def turn() -> None:
        getattr(heard.made.engine, end)()

    heard.made.main.turn = turn  # type: ignore[attr-defined]
    assert heard.made.call("train([Batch(8)] * 9, turn)") == 9
    assert heard.model.notes <= before + 1
    assert heard.made.problems == []


def test_what_the_user_wants_is_not_swallowed(script: Make, torch: Any) -> None:
    heard = Heard(script(SOURCE), f"//train{STEP}", torch)
    heard.made.call(f"train({SIXTY}, turn)")

    def interrupted(batch: Any, at: int) -> int:
        raise KeyboardInterrupt

    torch._C.TensorBase.size = interrupted
    heard.placed.refresh()
    with pytest.raises(KeyboardInterrupt):
        heard.made.call(f"train({SIXTY}, turn)")


def test_it_begins_and_ends_on_another_thread_without_losing_an_event(
    script: Make, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "SPARSE_NS", 0)
    heard = Heard(script(SOURCE), f"//train{PAIR}", torch, after=-1)
    over = threading.Event()

    def others() -> None:
        while not over.is_set():
            heard.consider()
            heard.placed.refresh()
            heard.consider()

    thread = threading.Thread(target=others)
    thread.start()
    try:
        items, fired, events, notes, _ = heard.call("train([Batch(8)] * 20_000, turn)")
    finally:
        over.set()
        thread.join()
    assert (items, fired, events, notes) == ([8] * 20_000, 40_000, 40_000, 40_000)
    assert heard.noted > 0


PLACES = """
class Loss:
    is_cpu = True

    def detach(self):
        return self

    def item(self):
        return 1.0

    def numel(self):
        return 1

def first(value, turn):
    loss = value
    return loss

def parameter(loss, turn):
    return loss

def loops(value, turn):
    n = 0
    while n < 3:
        n += 1
        loss = value
        if n == 2:
            continue
    for loss in [value, value]:
        pass
    else:
        loss = value
    return n

def guarded(value, turn):
    try:
        loss = value
        raise KeyError
    except KeyError:
        loss = value
    finally:
        loss = value
    with turn() as nothing:
        loss = value
    if value:
        loss = value
        return loss

class Batch(Loss):
    shape = (2, 3)

def held(value, turn):
    with turn() as nothing:
        if value is None:
            turn()
        data = value
        return data

def branches(value, turn):
    data = value
    for n in range(2):
        if n == 1:
            break
    if value is None:
        turn()
"""


@pytest.mark.parametrize("function", ["first", "parameter", "loops", "guarded"])
def test_a_tracer_sees_the_scripts_own_lines_whichever_way_an_event_goes(
    script: Make, torch: Any, function: str
) -> None:
    def traced(after: int, fails: bool) -> list[int]:
        heard = Heard(script(PLACES), f"//{function} > loss", torch, after=after)
        call = f"{function}(Loss(), turn)"
        lines: list[int] = []

        def trace(frame: Any, event: str, _: object) -> Any:
            if frame.f_code.co_name != function:
                return None
            if event == "line":
                lines.append(frame.f_lineno)
            return trace

        heard.turn = nullcontext  # type: ignore[method-assign, assignment]
        heard.made.main.turn = nullcontext  # type: ignore[attr-defined]
        for _ in range(3):
            heard.made.call(call)
            if after >= 0:
                heard.consider()
        noted = heard.noted
        if fails:
            torch._C.TensorBase.item = lambda loss: 1 // 0
            heard.placed.refresh()
        sys.settrace(trace)
        try:
            heard.made.call(f"[{call} for _ in range(4)]")
        finally:
            sys.settrace(None)
        assert (heard.problems, heard.made.problems) == ([], [])
        assert (heard.noted > noted) is (after >= 0)
        return lines

    torch._C.TensorBase.item = lambda loss: 1.0
    ordinary = traced(-1, False)
    assert traced(0, False) == ordinary
    # What fails comes back to its place from elsewhere, and python says of that where it is.
    assert [line for line, _ in groupby(traced(0, True))] == [line for line, _ in groupby(ordinary)]


@pytest.mark.parametrize("function", ["held", "branches"])
def test_a_tracer_sees_no_other_lines_where_the_end_of_a_call_is_noted(
    script: Make, torch: Any, function: str
) -> None:
    def traced(call: Callable[[str], object]) -> list[int]:
        lines: list[int] = []

        def trace(frame: Any, event: str, _: object) -> Any:
            if frame.f_code.co_name != function:
                return None
            if event == "line":
                lines.append(frame.f_lineno)
            return trace

        sys.settrace(trace)
        try:
            call(f"[{function}(Batch(), turn) for _ in range(4)]")
        finally:
            sys.settrace(None)
        return lines

    heard = Heard(script(PLACES), f"//{function}(data as batch) > #exit as step", torch, after=-1)
    plain: dict[str, Any] = {"turn": nullcontext}
    exec(PLACES, plain)
    heard.made.main.turn = nullcontext  # type: ignore[attr-defined]
    expected = traced(lambda code: eval(code, plain))
    assert traced(heard.made.call) == expected
    for _ in range(3):
        heard.consider()
        assert traced(heard.made.call) == expected
    assert function == "branches" or heard.noted > 0
