"""Operators get tensors without graphs, and wait for no device; subscribers get the object."""

from __future__ import annotations

import gc
import weakref
from collections import namedtuple
from typing import Any

import pytest

from overseer.engine.values import MAX_LENGTH, detached
from tests.engine.test_operators import Probed, Run

torch = pytest.importorskip("torch", reason="torch comes with the extra [examples]")
Pair = namedtuple("Pair", ["loss", "logits"])


@pytest.fixture
def run() -> Run:
    return Run()


def loss(value: float = 1.0) -> Any:
    return torch.tensor(value, requires_grad=True) * 2


@pytest.mark.parametrize("stream", ["given", "probe"])
def test_a_graph_is_not_kept_alive(stream: str) -> None:
    probed = Probed()
    source = probed.given if stream == "given" else probed.probe
    kept = [source["?loss"].accum(), source.accum(), source["?loss"].roll(3).accum()]
    leaf = torch.ones(3, requires_grad=True)
    graph = weakref.ref(leaf)
    given = (leaf * 2).sum()
    if stream == "given":
        probed.give(loss=given)
    else:
        probed.fire(loss=given)
    del leaf, given
    gc.collect()
    assert graph() is None
    assert kept[0][0].item() == 6.0


def test_a_plain_subscriber_gets_the_object_itself(run: Run) -> None:
    seen: list[Any] = []
    run.given.subscribe(seen.append)
    given = loss()
    run.give(loss=given)
    assert seen[0]["loss"] is given


def test_extremes_are_chosen_without_waiting_for_a_device(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run.given["?loss"].min().accum(), run.given["?loss"].max(scan=True).accum()

    def waits(tensor: Any) -> bool:
        raise AssertionError("it waits for the device")

    monkeypatch.setattr(torch.Tensor, "__bool__", waits)
    for value in (3.0, 1.0, 2.0):
        run.give(loss=torch.tensor(value))
    run.stream.complete()
    monkeypatch.undo()
    assert found[0][0].item() == 1.0
    assert [one.item() for one in found[1]][:2] == [3.0, 3.0]
    assert run.problems == []


def test_extremes_of_numbers_are_giving_s(run: Run) -> None:
    least, greatest = run.given["?x"].min().accum(), run.given["?x"].max(key=lambda x: -x).accum()
    run.give_all("x", 3, 10**400, 2)
    run.stream.complete()
    assert (least, greatest) == ([2], [2])


@pytest.mark.parametrize("value", [1, "text", None, [1, 2], {"a": 1}, (1, [2])])
def test_what_hangs_on_no_graph_is_the_object_itself(value: object) -> None:
    assert detached(value) is value


def test_containers_are_copied_in_their_kind() -> None:
    made = detached({"out": Pair(loss(), [loss()])})
    assert type(made["out"]) is Pair
    assert not made["out"].loss.requires_grad
    assert not made["out"].logits[0].requires_grad
    endless: list[Any] = [loss()]
    endless.append(endless)
    assert not detached(endless)[0].requires_grad
    long = [loss()] * (MAX_LENGTH + 1)
    assert detached(long) is long
