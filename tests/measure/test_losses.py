"""Losses are detached when seen, read when nobody waits, and never kept for long."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

from overseer.errors import Problem
from overseer.measure.losses import PENDING, Losses


class Scalar:
    """A tensor of one number that hangs on a graph, and counts who waits for it."""

    device = "cuda:0"
    shape: tuple[int, ...] = ()
    reads = 0
    lost = False

    def __init__(self, value: float, graph: object = None) -> None:
        self.value = value
        self.graph = graph

    def detach(self) -> Scalar:
        return Scalar(self.value)

    def item(self) -> float:
        Scalar.reads += 1
        if Scalar.lost:
            raise RuntimeError("CUDA error: device-side assert triggered\nmore lines")
        return self.value


@pytest.fixture(autouse=True)
def no_reads_yet() -> None:
    Scalar.reads, Scalar.lost = 0, False


def read(values: list[Any]) -> tuple[Losses, list[Problem]]:
    problems: list[Problem] = []
    losses = Losses(problems.append)
    for value in values:
        losses({"loss": value})
    losses.read()
    return losses, problems


def test_first_last_and_lowest_are_told() -> None:
    losses, problems = read([Scalar(3.0), 1, Scalar(0.5), 2.0])
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.n) == (3.0, 2.0, 0.5, 4)
    assert found.exact
    assert problems == []


def test_nothing_is_read_when_a_loss_is_seen() -> None:
    losses = Losses()
    for _ in range(10):
        losses({"loss": Scalar(1.0)})
    assert Scalar.reads == 0
    assert losses.summary() == {}
    losses.read()
    assert Scalar.reads == 10


def test_a_graph_does_not_outlive_its_step() -> None:
    class Graph:
        pass

    graph = Graph()
    gone = weakref.ref(graph)
    losses = Losses()
    losses({"loss": Scalar(1.0, graph)})
    del graph
    gc.collect()
    assert gone() is None


def test_a_graph_of_torch_does_not_outlive_its_step() -> None:
    torch = pytest.importorskip("torch")
    losses = Losses()
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    gone = weakref.ref(loss)
    losses({"loss": loss})
    del loss
    gc.collect()
    assert gone() is None
    losses.read()
    assert losses.summary()["train"].first == 6.0


def test_losses_that_nobody_reads_are_thinned_and_nobody_waits() -> None:
    losses = Losses()
    for i in range(10 * PENDING):
        losses({"loss": Scalar(float(i))})
    assert Scalar.reads == 0
    assert len(losses._tasks["train"].pending) <= PENDING
    losses.read()
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min) == (0.0, 10 * PENDING - 1, 0.0)
    assert (found.n, found.exact) == (10 * PENDING, False)


def test_plain_numbers_that_nobody_reads_are_all_counted() -> None:
    losses = Losses()
    for i in range(10 * PENDING):
        losses({"loss": float(10 * PENDING - i)})
    losses.read()
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.exact) == (10 * PENDING, 1, 1, True)


def test_nan_is_told_and_is_not_the_lowest() -> None:
    losses, problems = read([2.0, 1.0, math.nan])
    found = losses.summary()["train"]
    assert math.isnan(found.last)
    assert (found.min, found.not_finite) == (1.0, 1)
    assert problems == []


def test_nothing_but_nan_has_no_lowest() -> None:
    losses, _ = read([math.nan, math.inf])
    assert losses.summary()["train"].min is None


class Many(Scalar):
    shape = (64,)

    def detach(self) -> Many:
        return self


class Lazy:
    def detach(self) -> Any:
        raise RuntimeError("this graph is gone")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0.5", "str is not a number"),
        (None, "NoneType is not a number"),
        (Many(1.0), "of shape (64,) is not one number"),
        (object(), "float() argument"),
        (1j, "complex"),
        (Lazy(), "this graph is gone"),
    ],
)
def test_what_can_not_be_read_is_told_once_and_harms_nothing(value: Any, why: str) -> None:
    losses, problems = read([1.0, value, value, 3.0])
    assert [problem.slug for problem in problems] == ["loss"]
    assert why in problems[0].what
    found = losses.summary()["train"]
    assert (found.first, found.last) == (1.0, 3.0)


def test_a_lost_device_is_told_in_one_line() -> None:
    Scalar.lost = True
    losses, problems = read([Scalar(1.0)])
    assert losses.summary() == {}
    assert problems[0].what.endswith("device-side assert triggered")


def test_one_number_in_a_list_of_one_is_a_loss() -> None:
    torch = pytest.importorskip("torch")
    losses, problems = read([torch.tensor([0.25]), torch.tensor([[0.125]])])
    assert losses.summary()["train"].min == 0.125
    assert problems == []


def test_each_task_has_losses_of_its_own() -> None:
    losses = Losses()
    losses({"loss": 1.0})
    losses({"loss": 2.0, "task": "eval"})
    losses({"loss": 3.0, "task": ("odd", 1)})
    losses.read()
    assert {task: found.first for task, found in losses.summary().items()} == {
        "train": 1.0,
        "eval": 2.0,
        "('odd', 1)": 3.0,
    }


def test_a_thousand_tasks_do_not_fill_the_memory() -> None:
    losses = Losses()
    for number in range(1000):
        losses({"loss": 1.0, "task": f"task {number}"})
    losses.read()
    assert len(losses.summary()) <= 257


def test_a_loss_that_the_next_step_overwrites_is_to_be_copied() -> None:
    """As ``torch.compile(mode="reduce-overhead")`` returns it, and says when it is read late."""

    class Overwritten(Scalar):
        def detach(self) -> Overwritten:
            return self

        def item(self) -> float:
            raise RuntimeError(
                "Error: accessing tensor output of CUDAGraphs that has been overwritten by a"
                " subsequent run. Stack trace: ..."
            )

    _, problems = read([Overwritten(1.0), Overwritten(2.0)])
    assert [problem.slug for problem in problems] == ["loss"]
    assert "loss.clone()" in str(problems[0].remedy)


@pytest.mark.parametrize("keys", [(), ("loss",)])
def test_a_tensor_in_the_hosts_memory_is_read_at_once_and_not_kept(keys: tuple[str, ...]) -> None:
    torch = pytest.importorskip("torch")
    problems: list[Problem] = []
    losses = Losses(problems.append)
    take = losses.for_keys(keys) if keys else losses
    values = [torch.tensor(value, requires_grad=True) for value in (3.0, 2.0, 5.0)]
    alive = [weakref.ref(value) for value in values]
    for value in values:
        take({"loss": value})
    with torch.no_grad():
        value.fill_(-1.0)  # What it holds later does not count.
    del value, values
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3
    take({"loss": torch.ones(2)})
    take({"loss": torch.ones(1)})
    losses.read()
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.n) == (3.0, 1.0, 1.0, 5)
    assert [one.what for one in problems] == [
        "it can't be read: Tensor of shape (2,) is not one number"
    ]


@pytest.mark.parametrize("error", [SystemExit(9), GeneratorExit(), BaseException("own")])
@pytest.mark.parametrize("method", ["detach", "__float__"])
def test_a_loss_whose_own_code_ends_in_an_exit_is_one_that_cannot_be_read(
    error: BaseException, method: str
) -> None:
    def fails(self: object) -> float:
        raise error

    losses, (problem,) = read([1.0, type("Exits", (), {method: fails})(), 2.0])
    found = losses.summary()["train"]
    assert (found.first, found.last) == (1.0, 2.0)
    assert type(error).__name__ in problem.what


def test_a_wish_that_comes_while_a_loss_is_read_is_heard() -> None:
    class Wishes:
        def __float__(self) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read([Wishes()])
