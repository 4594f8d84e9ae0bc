"""Waiting for other ranks: what is recorded of it, and that programs compute the same with it."""

from __future__ import annotations

import gc
import math
import subprocess
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional_collectives
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from instruments.hooks import distributed
from overseer.recorder import recorder, table
from overseer.recorder import sites as k
from tests.running import VOIR, Place, environment

from .hooked import Hooked

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="built without distributed")
X = torch.linspace(-1, 1, 24).reshape(6, 4)


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of this process alone."""
    torch.set_num_threads(1)  # As the hooks run: sums are equal bit for bit.
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Checkpointed(torch.nn.Module):
    """A model whose layers run again in backward, within another backward."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Any) -> Any:
        return checkpoint(self.layers, x.requires_grad_(), use_reentrant=True)


def model(**how: Any) -> Any:
    torch.manual_seed(1)
    layers = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )
    return DistributedDataParallel(layers, **how)


def plain(one: Any, **how: Any) -> Any:
    loss = one(X).pow(2).mean()
    loss.backward(**how)
    return loss


def accumulated(one: Any) -> Any:
    for last in (False, False, True):
        with nullcontext() if last else one.no_sync():
            loss = plain(one)
    return loss


def twice(one: Any) -> Any:
    loss = one(X).pow(2).mean()
    with one.no_sync():
        loss.backward(retain_graph=True)
    loss.backward()
    return loss


def failing(one: Any) -> Any:
    """A backward that fails before the one that works."""

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            raise ArithmeticError

    with one.no_sync(), suppress(ArithmeticError):
        one(Fails.apply(X.clone().requires_grad_())).sum().backward()
    one.zero_grad()
    return plain(one)


def joined(one: Any) -> Any:
    with one.join():
        return plain(one)


def several_roots(one: Any) -> Any:
    y = one(X)
    torch.autograd.backward((y.sum(), y.pow(2).sum()))
    return y.sum()


def with_callback(one: Any) -> Any:
    """A callback of the script's own, which communicates."""
    queue, y = torch.autograd.Variable._execution_engine.queue_callback, one(X)
    weight = one.module[0].weight
    hook = weight.register_hook(lambda _: queue(lambda: dist.all_reduce(torch.ones(1))))
    y.pow(2).mean().backward()
    hook.remove()
    return y.sum()


def gradient(one: Any) -> Any:
    """A penalty on gradients of gradients, by ``torch.autograd.grad``."""
    x = X.clone().requires_grad_()
    y = one.module(x).sum()
    (found,) = torch.autograd.grad(y, x, create_graph=True)
    loss = one(X).pow(2).mean() + found.pow(2).sum().detach()
    loss.backward()
    return loss


def two_models(one: Any) -> Any:
    other = model()
    loss = (one(X) + other(X)).pow(2).mean()
    loss.backward()
    return loss + sum(p.grad.sum() for p in other.parameters())


def checkpointed(one: Any) -> Any:
    return plain(DistributedDataParallel(Checkpointed(one.module)))


#: By name: the model's options, a step, and the number of its backwards that end with a wait.
STEPS: dict[str, tuple[dict[str, Any], Callable[[Any], Any], int]] = {
    "plain": ({}, plain, 1),
    "static graph": ({"static_graph": True}, plain, 1),
    "unused parameters": ({"find_unused_parameters": True}, plain, 1),
    "views": ({"gradient_as_bucket_view": True}, plain, 1),
    "small buckets": ({"bucket_cap_mb": 0.0001}, plain, 1),
    "accumulation": ({}, accumulated, 3),
    "a graph that is retained": ({}, twice, 2),
    "a backward that fails": ({}, failing, 1),
    "join": ({}, joined, 1),
    "several roots": ({}, several_roots, 1),
    "a callback of the script": ({}, with_callback, 1),
    "a gradient alone": ({}, gradient, 1),
    "two models": ({}, two_models, 1),
    "a backward within another": ({}, checkpointed, 1),
}


def run(how: dict[str, Any], step: Callable[[Any], Any]) -> list[bytes]:
    """Four steps; returns all losses, gradients and parameters as they are in memory."""
    one, found = model(**how), []
    optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        found.append(step(one).detach().numpy().tobytes())
        found += [p.grad.numpy().tobytes() for p in one.parameters()]
        optimizer.step()
        found += [p.detach().numpy().tobytes() for p in one.parameters()]
    return found


@pytest.mark.parametrize("name", STEPS)
def test_ddp_computes_the_same_and_each_backward_ends_with_a_wait(
    name: str, group: None, request: pytest.FixtureRequest
) -> None:
    how, step, backwards = STEPS[name]
    bare = run(how, step)
    hooked: Hooked = request.getfixturevalue("hooked")
    assert run(how, step) == bare
    events = hooked.events()
    waits = [e for _, e in events if table.rows[e.site].get("label") == "DDP"]
    assert len(waits) == 4 * backwards
    spans = [e for kind, e in events if kind == k.BACKWARD]
    for wait in waits:  # At the end of the innermost backward around it.
        around = [e for e in spans if e.depth == wait.depth - 1 and e.start <= wait.start]
        assert around[-1].start + around[-1].ns == wait.start + wait.ns


def test_what_a_callback_of_the_script_waits_for_lies_within_the_wait_of_ddp(
    group: None, hooked: Hooked
) -> None:
    run({}, with_callback)
    events = [e for kind, e in hooked.events() if kind == k.COMMUNICATION]
    labels = [table.rows[e.site]["label"] for e in events]
    at = labels.index("DDP")
    inner = [e for e in events[:at] if e.depth == events[at].depth + 1]
    assert [table.rows[e.site]["label"] for e in inner] == ["ProcessGroup.allreduce", "Work.wait"]


def test_collectives_have_their_kind_group_number_and_bytes(group: None, hooked: Hooked) -> None:
    other = dist.new_group([0])
    hooked.events()
    dist.all_reduce(torch.ones(3, 4))
    dist.all_gather([torch.zeros(2)], torch.ones(2), group=other)
    dist.all_reduce(torch.ones(6, dtype=torch.float64), async_op=True).wait()
    dist.barrier()
    found = []
    for kind, e in hooked.events():
        row = table.rows[e.site]
        if kind == k.COMMUNICATION and e.ns:
            found.append((row["label"].rpartition(".")[2], row.get("group"), e.object, e.value))
    names = [dist.group.WORLD.group_name, other.group_name]
    assert [one[:3] for one in found if one[0] != "wait"] == [
        ("allreduce", names[0], 1), ("allgather", names[1], 1), ("allreduce", names[0], 2),
        ("barrier", names[0], 3),
    ]  # fmt: skip
    assert recorder.waiting() == ({names[0]: 3, names[1]: 1}, False)
    sizes = [one[3] for one in found if one[0] != "wait"]
    assert sizes[:3] == [48, 8, 48]
    assert math.isnan(sizes[3])


def test_functional_collectives_have_them_too(group: None, hooked: Hooked) -> None:
    distributed.functional(hooked.places, functional_collectives)
    done = functional_collectives.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 1
    assert done.sum() == 6
    events = [e for kind, e in hooked.events() if kind == k.COMMUNICATION]
    labels = [table.rows[e.site]["label"] for e in events]
    assert labels == ["all_reduce", "wait_tensor"]
    assert (events[0].object, events[0].value) == (1, 12)
    assert table.rows[events[0].site]["group"] == dist.group.WORLD.group_name


def test_without_ddp_no_backward_ends_with_a_wait(group: None, hooked: Hooked) -> None:
    layer = torch.nn.Linear(4, 1)
    plain(layer)
    assert [kind for kind, _ in hooked.events()][1:] == [k.FORWARD, k.BACKWARD]


def test_a_model_keeps_no_hook_and_is_not_kept_by_one(group: None, hooked: Hooked) -> None:
    one = model()
    node = torch.autograd.graph.get_gradient_edge(one.module[0].weight).node
    plain(one)
    gone = weakref.ref(one.module[0].weight)
    hooked.events()
    hooked.places.remove()
    plain(one)
    assert not [kind for kind, _ in hooked.events()]
    del one, node
    gc.collect()
    assert gone() is None


#: Two ranks, of which the second takes 20 ms longer in each step; 12 steps each of four kinds.
RANKS = """
    import sys, time
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    rank = int(sys.argv[2])
    store = dist.FileStore(sys.argv[1], 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    late = rank == 1

    def busy(*_):
        end = time.perf_counter() + 0.02 * late
        while time.perf_counter() < end:
            pass

    def train(wrap, before, after):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
        model = wrap(layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(12):
            before()
            optimizer.zero_grad()
            loss = model(torch.ones(8, 32)).pow(2).mean()
            loss.backward()
            after(loss)
            optimizer.step()

    def reduced(layers):
        layers[0].register_full_backward_hook(busy)
        return nn.parallel.DistributedDataParallel(layers)

    def nothing(*_):
        pass

    train(reduced, nothing, nothing)
    train(fully_shard, busy, nothing)
    reduce = lambda loss: functional.all_reduce(loss, "sum", dist.group.WORLD) + 1
    train(lambda model: model, busy, reduce)
    train(lambda model: model, busy, lambda loss: dist.monitored_barrier())
    dist.destroy_process_group()
"""
#: By kind: the part in which the late rank is late.
PHASES = {"ddp": "backward", "fsdp": "other", "functional": "other", "monitored": "other"}


def test_waiting_for_a_late_rank_is_communication_and_what_makes_it_late_is_its_own(
    tmp_path: Path,
) -> None:
    Place(tmp_path).write("main.py", RANKS)
    runs = [tmp_path / f"run{rank}" for rank in range(2)]
    store = str(tmp_path / "store")
    ranks = [
        subprocess.Popen(
            [*VOIR, "--quiet", "--run-dir", str(run), "main.py", store, str(rank)],
            cwd=tmp_path,
            env=environment(),
        )
        for rank, run in enumerate(runs)
    ]
    assert [process.wait(60) for process in ranks] == [0, 0]
    first, late = (np.load(next(run.rglob("steps.npy"))) for run in runs)
    for number, part in enumerate(PHASES.values()):
        steps = slice(12 * number + 2, 12 * (number + 1))  # Without the first ones.
        waits, own = (np.median(rank["communication"][steps]) for rank in (first, late))
        parts = [np.median(rank[part][steps]) for rank in (first, late)]
        assert waits > 10e6, part
        assert own < waits / 2, part
        assert parts[1] > 15e6, part
        assert parts[0] < parts[1] / 2, part
