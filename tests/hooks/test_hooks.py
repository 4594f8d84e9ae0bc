"""Hooks: the script sees nothing of them, none is left, and a failure spoils no later step."""

from __future__ import annotations

import copy
import inspect
import io
import math
import os
import pickle
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

import torch
from torch.utils.data import DataLoader, TensorDataset

from instruments.auto import FRAMEWORKS, place_other
from instruments.hooks.pytorch import parameters
from instruments.places import Places
from overseer.recorder import recorder
from overseer.recorder import sites as k

from .hooked import OWNERS, Hooked

in_c = pytest.mark.skipif(recorder.NAME == "Python", reason="the fallback has frames")
THREE = torch.ones(3, 4)


def step(model: Any, optimizer: Any, x: Any = THREE) -> None:
    """One step of a training."""
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()


def training() -> tuple[Any, Any]:
    """A model and its optimizer."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def fit(model: Any, optimizer: Any, batches: Any) -> None:
    """A step for each batch."""
    for (x,) in batches:
        step(model, optimizer, x)


def of(size: int, rows: int) -> Any:
    """A loader of so many rows, in batches of a size."""
    return DataLoader(TensorDataset(torch.ones(rows, 4)), batch_size=size)


@contextmanager
def placed() -> Iterator[None]:
    """With hooks, which are taken out."""
    made = Hooked()
    try:
        yield
    finally:
        made.places.remove()
        recorder.close()


# Invisible


def test_what_stands_in_has_name_signature_and_documentation_of_what_was_there() -> None:
    def shown() -> list[Any]:
        found = [getattr(owner, name) for owner, name in OWNERS]
        names = ("__name__", "__qualname__", "__module__", "__doc__")
        return [[str(inspect.signature(f)), *(getattr(f, n) for n in names)] for f in found]

    before = shown()
    with placed():
        assert shown() == before
        assert all(callable(vars(owner)[name]) for owner, name in OWNERS)
    assert shown() == before


def test_models_optimizers_and_functions_are_pickled_and_copied(hooked: Hooked) -> None:
    model, optimizer = training()
    step(model, optimizer)
    for thing in (model, optimizer, TensorDataset(torch.ones(2, 2))):
        pickle.loads(pickle.dumps(thing))
        copy.deepcopy(thing)
    for function in (torch.save, torch.autograd.backward, torch.optim.Optimizer.zero_grad):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(again(torch.ones(2, 4)), model(torch.ones(2, 4)))


class Fails(torch.nn.Module):
    """Fails, or does not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 1)
        self.fails = True

    def forward(self, x: Any) -> Any:
        if self.fails:
            raise ValueError("no")
        return self.inner(x)


class FailingOptimizer(torch.optim.SGD):
    """Fails, or does not."""

    fails = True

    def step(self, closure: Any = None) -> Any:
        if self.fails:
            raise ValueError("no")
        return super().step(closure)


class FailingData(torch.utils.data.Dataset[Any]):
    """Its third sample fails."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        if index == 2:
            raise ValueError("no")
        return (torch.ones(4),)


def failures() -> list[Any]:
    """What fails within torch, hook or no hook."""
    data = DataLoader(FailingData(), batch_size=2)
    model, optimizer = training()
    return [
        lambda: Fails()(torch.ones(2, 4)),
        lambda: torch.nn.Sequential(Fails())(torch.ones(2, 4)),
        lambda: model(torch.ones(2, 3)),
        lambda: torch.ones(2).backward(),
        lambda: FailingOptimizer(model.parameters(), lr=0.1).step(),
        lambda: optimizer.step(lambda: 1 / 0),
        lambda: optimizer.zero_grad(1, 2),
        lambda: torch.optim.SGD([], lr=0.1),
        lambda: torch.amp.GradScaler("cpu").scale(None),
        lambda: torch.save(model, "/nowhere/at/all"),
        lambda: list(data),
        lambda: DataLoader([], -1),
    ]


@in_c
def test_tracebacks_are_as_without_hooks() -> None:
    def told() -> list[list[tuple[str, str, int | None]]]:
        found = []
        for fails in failures():
            with pytest.raises(Exception) as caught:
                fails()
            frames = traceback.extract_tb(caught.value.__traceback__)
            found.append([(frame.filename, frame.name, frame.lineno) for frame in frames][1:])
        return found

    before = told()
    with placed():
        assert told() == before


# None is left


def test_what_the_script_has_put_around_a_hook_stays(hooked: Hooked) -> None:
    before = torch.nn.Module.__call__

    def around(self: Any, *args: Any, **kwargs: Any) -> Any:
        return before(self, *args, **kwargs)

    plain = hooked.places
    torch.nn.Module.__call__ = around  # type: ignore[method-assign]
    try:
        step(*training())
        plain.remove()
        assert torch.nn.Module.__call__ is around
        step(*training())  # What it calls works on, and records nothing.
    finally:
        torch.nn.Module.__call__ = vars(before).get("__wrapped__", before.__wrapped__)  # type: ignore[attr-defined,method-assign]


# What fails leaves what follows right


def test_parameters_of_optimizers_are_counted() -> None:
    module, places, summary = sys.modules["torch.optim.optimizer"], Places(), dict[str, Any]()
    before = vars(torch.optim.Optimizer)["add_param_group"]
    parameters(places, module, summary)
    _, optimizer = training()
    assert summary == {"parameters": 4 * 4 + 4 + 4 + 1}
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(7))]})
    torch.optim.SGD([torch.nn.UninitializedParameter()])
    assert summary == {"parameters": 25 + 7}
    with pytest.raises(TypeError, match="param_group"):
        optimizer.add_param_group(3)
    places.remove()
    assert vars(torch.optim.Optimizer)["add_param_group"] is before


def test_steps_after_failures_are_right(hooked: Hooked) -> None:
    model = Fails()
    optimizer = FailingOptimizer(model.parameters(), lr=0.01)
    for number in range(6):
        model.fails, optimizer.fails = number == 1, number == 3
        try:
            step(model, optimizer)
        except ValueError:
            optimizer.zero_grad()
    fold, steps = hooked.folded()
    assert fold.steps() == 4
    assert [one.items for one in steps][-1] == 3
    assert all(part >= 0 for one in steps for part in one.parts)


def test_a_loader_that_fails_in_the_middle_gave_no_batch(hooked: Hooked) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fit(*training(), DataLoader(FailingData(), batch_size=2))
    _, steps = hooked.folded()
    assert [one.items for one in steps] == [2, 2]


def test_a_fit_of_an_optimizer_within_another_that_fails_leaves_none_open(hooked: Hooked) -> None:
    model, optimizer = training()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            optimizer.step(lambda: 1 / 0)
        step(model, optimizer)
    *others, last = [event for kind, event in hooked.events() if kind == k.OPTIMIZER]
    assert (len(others), last.depth, last.flags & k.IN_OPTIMIZER) == (2, 0, 0)


def test_what_ends_the_script_passes_through(hooked: Hooked) -> None:
    class Ends(torch.nn.Linear):
        def forward(self, x: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ends(4, 1)(torch.ones(1, 4))
    (event,) = [event for kind, event in hooked.events() if kind == k.FORWARD]
    assert (bool(event.flags & k.FAILED), event.depth) == (True, 0)


# Processes and threads


def test_a_forked_child_records_nothing_of_its_parents(hooked: Hooked) -> None:
    model, optimizer = training()
    step(model, optimizer)
    model(torch.ones(2, 4)).mean().backward()  # In the middle of a step.
    pid = os.fork()
    if not pid:
        try:
            step(model, optimizer)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    optimizer.step()
    fold, _ = hooked.folded()
    assert fold.steps() == 2


def test_threads_have_steps_of_their_own_and_their_numbers_are_used_again(hooked: Hooked) -> None:
    def train() -> None:
        for _ in range(4):
            step(*trained)

    for _ in range(20):
        trained = training()
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        while Path(f"/proc/self/task/{thread.native_id}").exists():
            time.sleep(0.001)  # Its number is free once the system's thread has ended.
    fold, steps = hooked.folded()
    assert fold.steps() == 80
    assert len(fold.lanes) < 4
    assert {one.items for one in steps} == {3.0}


# What is told


def test_time_first_is_told_once_and_only_of_layers_that_say_so(hooked: Hooked) -> None:
    def told() -> int:
        return sum(kind == k.TIME_FIRST for kind, _ in hooked.events())

    torch.nn.Sequential(torch.nn.LSTM(4, 4, batch_first=True), torch.nn.Linear(4, 4))
    assert told() == 0
    for _ in range(3):
        torch.nn.Sequential(torch.nn.GRU(4, 4))
    torch.nn.TransformerEncoderLayer(4, 2)
    assert told() == 1


def test_loaders_are_told_apart_though_their_iterators_take_each_others_place(
    hooked: Hooked,
) -> None:
    model, optimizer = training()
    loader, other = of(4, rows=8), of(2, rows=8)
    for _ in range(3):
        fit(model, optimizer, loader)
        with torch.no_grad():
            for (x,) in other:
                model(x)
    fold, _ = hooked.folded()
    found = {name: (task.steps, task.items) for name, task in fold.tasks.items()}
    assert found == {"train": (6, 24), "eval": (12, 24)}


def test_a_loader_that_makes_its_iterators_itself_tells_that_it_begins_anew(hooked: Hooked) -> None:
    class StatefulDataLoader(DataLoader[Any]):  # As torchdata has it.
        def __iter__(self) -> Any:
            return self._get_iterator()

    place_other(hooked.places, other("torchdata", StatefulDataLoader))
    loader = StatefulDataLoader([1] * 8, batch_size=4)
    assert [len(list(loader)) for _ in range(2)] == [2, 2]
    found = [kind for kind, _ in hooked.events() if kind]  # One tells of the thread.
    assert found == [k.ITERATE, *[k.LOADING] * 3] * 2


def test_a_loader_of_another_framework_is_waited_for(hooked: Hooked) -> None:
    class DALIGenericIterator:  # As DALI has it: a dictionary for each pipeline.
        left = 2

        def __next__(self) -> list[dict[str, Any]]:
            self.left -= 1
            return [{"data": torch.ones(8, 3), "label": torch.ones(8, 1)}]

    place_other(hooked.places, other("nvidia", DALIGenericIterator))
    next(DALIGenericIterator())
    (found,) = [event for event in hooked.events() if event[0] == k.LOADING]
    assert math.isnan(found[1].value), "its items are unknown, not one"


def other(package: str, kind: type) -> Any:
    """A framework's module, with its loader."""
    (name,) = (name for name in FRAMEWORKS if name.startswith(package))
    return SimpleNamespace(__name__=name, **{kind.__name__: kind})


def test_a_graph_that_is_traced_has_the_scripts_operations_alone() -> None:
    model = torch.nn.Linear(4, 1)

    def traced() -> str:
        with pytest.warns(DeprecationWarning):
            graph = str(torch.jit.trace(model, torch.ones(2, 4)).inlined_graph)
        return re.sub(r"___torch_mangle_\d+\.", "", graph)

    plain = traced()
    with placed():
        assert traced() == plain
