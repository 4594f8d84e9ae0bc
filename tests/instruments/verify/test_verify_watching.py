"""What --verify listens to and wraps: steps told from other events, and everything put back."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from instruments.verify.evidence import own_share
from instruments.verify.loaders import Loaders
from instruments.verify.syncs import Syncs, is_script
from instruments.verify.witness import Witness, promised
from overseer.clock import FakeClock


class Stopped(Exception):
    pass


class Run:
    """As much of a run as the witness needs; steps take 10 ms."""

    def __init__(self, *required: Any) -> None:
        self.clock = FakeClock()
        self.charged_ns = self.events = 0
        self.probes: list[dict[str, Any]] = []
        self.required = list(required)
        self.stopped_early: str | None = None

    def stop(self) -> None:
        raise Stopped

    def charge(self, ns: int) -> None:
        self.charged_ns += ns

    def probe_verdicts(self) -> list[dict[str, Any]]:
        return self.probes


def witness(*required: Any, most: int | None = 200) -> Witness:
    run: Any = Run(*required)
    return Witness(run, Syncs(run.clock), most)


def give(one: Witness, times: int, milliseconds: float = 10, **event: Any) -> int:
    """Give an event so often; how often it was heard before the run was stopped."""
    clock: Any = one._ov.clock
    for done in range(times):
        clock.advance(milliseconds / 1e3)
        try:
            one(event)
        except Stopped:
            return done + 1
    return times


def test_steady_steps_with_losses_are_enough_at_forty() -> None:
    assert give(witness(), 300, 100, step=True, loss=1.0, batch_size=8) == 40


@pytest.mark.parametrize(("milliseconds", "steps"), [(20, 60), (5, 100), (2, 200), (0.3, 200)])
def test_short_steps_go_on_until_voir_s_own_cost_can_be_told(
    milliseconds: float, steps: int
) -> None:
    one = witness()
    assert give(one, 300, milliseconds, step=True, loss=1.0, batch_size=8) == steps


def test_a_run_without_a_steady_state_ends_at_two_hundred() -> None:
    one = witness()
    clock: Any = one._ov.clock
    with pytest.raises(Stopped):
        for n in range(300):
            clock.advance(0.001 * (n + 1))
            one({"step": True, "loss": 1.0})
    assert one.steps == 200
    assert one._ov.stopped_early == "after 200 steps"


def test_a_probe_that_has_not_fired_yet_is_waited_for() -> None:
    one = witness()
    run: Any = one._ov
    run.probes = [{"state": "fired"}, {"state": "never fired"}]
    assert give(one, 50, step=True, loss=1.0) == 50
    run.probes = [{"state": "fired"}]
    assert give(one, 300, step=True, loss=1.0) == 30


def test_what_an_instrument_promised_is_waited_for() -> None:
    promise = SimpleNamespace(emits={"heat.cpu": "C"}, __name__="Heat")
    one = witness(promise)
    assert give(one, 50, step=True, loss=1.0) == 50
    give(one, 1, heat={"cpu": 60.0})
    assert give(one, 300, step=True, loss=1.0) == 30


def test_a_monitor_that_nobody_asked_for_promises_nothing() -> None:
    run: Any = Run(SimpleNamespace(emits={"gpudata.load": "1"}, by_default=True, __name__="Gpu"))
    assert promised(run) == []


def test_whoever_asks_for_a_number_of_steps_gets_them() -> None:
    assert give(witness(most=None), 300, step=True, loss=1.0) == 300


def test_pairs_are_steps_where_there_are_no_others() -> None:
    one = witness()
    begin = {"$wrap": {"name": "compute_start", "step": "begin", "id": 1}}
    end = {"$wrap": {"name": "compute_start", "step": "end", "id": 1}, "batch_size": 4}
    for _ in range(20):
        give(one, 1, **begin)
        give(one, 1, **end)
    assert (one.steps, one.pairs, one.sizes, len(one.ends)) == (0, 20, {4: 20}, 20)
    give(one, 5, step=True)
    assert (one.steps, len(one.ends)) == (5, 25)


def test_losses_alone_count_as_steps() -> None:
    assert give(witness(), 300, 100, loss=1.0) == 40


def test_steps_and_losses_of_other_tasks_are_kept_apart() -> None:
    one = witness()
    give(one, 10, step=True, loss=9.0, batch_size=8, task="eval")
    give(one, 10, step=True, loss=1.0, batch_size=4)
    assert (one.steps, one.others, one.sizes, one.losses) == (10, 10, {4: 10}, [1.0] * 10)


def test_a_batch_that_has_no_size_says_why() -> None:
    one = witness()
    give(one, 3, step=True, batch=object())
    assert one.sizes == {}
    assert "object" in str(one.unsized)


def test_a_long_run_is_watched_in_bounded_memory() -> None:
    one = witness(most=None)
    give(one, 10_000, step=True, loss=1.0)
    give(one, 1, step=True, loss=0.25)
    assert len(one.losses) + len(one.last_losses) <= 4096
    assert one.last_losses[-1] == 0.25
    assert len(one.ends) <= 4096


def test_own_cost_leaves_out_what_was_spent_once() -> None:
    one = witness(most=None)
    give(one, 100, step=True)  # 0.6 seconds behind the first forty.
    run = {"overhead": {"seconds": 0.3 + 0.2 + 0.002, "outside": 0.3}}
    assert own_share(run, one, 200_000_000) == pytest.approx(0.002 / 0.6, rel=0.01)
    assert own_share({}, one, 0) is None


def test_own_cost_is_that_of_steps_that_voir_knows() -> None:
    one = witness(most=None)
    run: Any = one._ov
    run.events = 900
    give(one, 40, step=True)
    run.events = 1000
    give(one, 60, step=True)  # 0.6 seconds, a tenth of the events.
    facts = {"overhead": {"seconds": 0.05, "outside": 0.0}}
    assert own_share(facts, one, 0) == pytest.approx(0.005 / 0.6, rel=0.01)


def test_own_cost_of_a_few_long_steps_is_that_of_all() -> None:
    one = witness(most=None)
    give(one, 30, 100, step=True)
    assert own_share({"overhead": {"seconds": 0.029}}, one, 0) == pytest.approx(0.01, rel=0.01)


def test_own_cost_of_a_moment_is_not_told() -> None:
    one = witness(most=None)
    give(one, 200, 1, step=True)
    assert own_share({"overhead": {"seconds": 0.001}}, one, 0) is None


# torch


class Tensor:
    device = SimpleNamespace(type="cuda")

    def item(self) -> float:
        return 0.5

    def tolist(self) -> None:
        warnings.warn("a list", stacklevel=2)

    def numpy(self) -> None:
        raise AttributeError

    def __format__(self, spec: str) -> str:
        return format(0.5, spec)


class Child(Tensor):
    """Inherits what it is asked for, as torch's class does from its own base."""


class DataLoader:
    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[int]:
        yield from range(2)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "torch.utils", "torch.utils.data"):
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.Tensor, module.DataLoader = Child, DataLoader
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("torch")
def test_calls_that_wait_are_counted_by_place_and_put_back() -> None:
    before = dict(vars(Child)), dict(vars(Tensor))
    with Syncs(FakeClock()) as syncs:
        for _ in range(10):
            Child().item()
            f"{Child():.2f}"
            syncs.step()
        Child().item()
    first, second = syncs.each_step()
    assert [fact["each"] for fact in syncs.facts(1000)] == [1.0, 1.0]
    assert syncs.facts(0)[0] == {
        "where": first.where, "call": first.call, "device": first.device, "each": 1.0, "share": 0.0,
    }  # fmt: skip
    assert {first.call, second.call} == {".item()", "a format"}
    assert (first.count, first.steps, first.device) == (9, 9, "cuda")
    assert first.where.partition(":")[0].endswith("test_verify_watching.py")
    assert (dict(vars(Child)), dict(vars(Tensor))) == before


@pytest.mark.usefixtures("torch")
def test_what_is_called_is_the_method_itself() -> None:
    with Syncs(FakeClock()) as syncs:
        assert Child.item is Tensor.item
        with pytest.warns(UserWarning) as told:
            Child().tolist()
        with pytest.raises(AttributeError) as caught:
            Child().numpy()
        for _ in range(4):
            hasattr(Child(), "item")
            syncs.step()
    assert told[0].filename == __file__
    assert [entry.name for entry in caught.traceback][1:] == ["numpy"]
    assert syncs.each_step() == []


@pytest.mark.usefixtures("torch")
def test_a_call_now_and_then_is_not_each_steps() -> None:
    with Syncs(FakeClock()) as syncs:
        for n in range(20):
            for _ in range(8 if n % 5 == 0 else 0):
                Child().item()
            syncs.step()
    assert syncs.each_step() == []


def test_libraries_and_voir_are_not_the_script() -> None:
    import instruments.verify.syncs as ours

    assert is_script(__file__)
    assert not is_script(pytest.__file__)
    assert not is_script(json_file())
    assert not is_script(ours.__file__)
    assert not is_script("<string>")


def json_file() -> str:
    import json

    return json.__file__


@pytest.mark.usefixtures("torch")
def test_loaders_are_remembered_and_the_class_is_put_back() -> None:
    before = dict(vars(DataLoader))
    small, large = DataLoader(4), DataLoader(32)
    with Loaders() as loaders:
        assert [*small, *large, *small] == [0, 1] * 3
    assert loaders.seen == [small, large]
    assert loaders.of(32) is large
    assert loaders.of(7) is loaders.of(None) is small
    assert dict(vars(DataLoader)) == before
