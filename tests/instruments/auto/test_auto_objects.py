"""Batches of a script's own kind, given to a model without a ``DataLoader``, are sized too."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import Watched, watched

HEAD = """
    import argparse, types
    from collections import OrderedDict, UserDict, namedtuple
    from dataclasses import dataclass, field
    from typing import Any

    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_sequence

    x, y = torch.randn(24, 4), torch.randn(24, 2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, *given, **named):
            return self.inner(x)

    class Plain:
        def __init__(self, **held):
            self.__dict__.update(held)

    class Graphs(Plain):
        num_graphs = property(lambda self: self.graphs)

    class Lists(list):
        pass

    class Fails(UserDict):
        def __getitem__(self, key):
            raise SystemError(key)

    class Told(UserDict):
        def keys(self):
            raise ValueError("not yet")

    class Asked(Plain):
        @property
        def batch_size(self):
            raise RuntimeError("not yet")

    @dataclass
    class Data:
        x: Any = None
        y: Any = None
        batch_size: Any = None

    Pair = namedtuple("Pair", "x y")
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def learn(output):
        optimizer.zero_grad()
        nn.functional.mse_loss(output, y).backward()
        optimizer.step()
    """


def run(tmp_path: Path, loop: str) -> Watched:
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + dedent(loop))
    return watched(path)


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ("UserDict(x=x, y=y)", 24),
        ("OrderedDict(n=3, x=x)", 24),
        ("UserDict(seen=dict(x=x))", 24),
        ("types.MappingProxyType(dict(x=x))", 24),
        ("Data(x, y)", 24),
        ("batch=Data(x, y)", 24),
        ("Data(list(torch.randn(6, 3, 8, 8)))", 6),
        ("Data(x.t(), y, batch_size=24)", 24),
        ("Data(x.requires_grad_(), y)", 24),  # Where the gradient by what is given is asked for.
        ("Pair(x, y)", 24),
        ("pack_sequence([torch.randn(n, 4) for n in (5, 3, 3)])", 3),
        ("Plain(x=x.t(), batch_size=24)", 24),
        ("Graphs(store=UserDict(x=torch.randn(90, 4)), graphs=24)", 24),
        ("Plain(lr=0.1, batch_size=8), Data(x, y)", 24),
    ],
)
def test_a_batch_of_another_kind_is_sized(tmp_path: Path, given: str, items: int) -> None:
    seen = run(tmp_path, f"for _ in range(20):\n    learn(model({given}))")
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (20, 20 * items)
    assert (seen.problems, seen.error) == ([], None)


@pytest.mark.parametrize(
    "given",
    [
        "argparse.Namespace(batch_size=64, lr=0.1)",
        "types.SimpleNamespace(x=x, y=y)",
        "Plain(batch_size=64, layers=[1, 2, 3])",
        "Plain(batch_size=64, model=model, x=x)",
        "Plain(batch_size=None, x=x)",
        "Data(3, [1, 2, 3], batch_size=64)",
        "Data(torch.tensor(0.1), [1, 2, 3])",
        "Data(model, x)",
        "Data(model.state_dict(), 3)",
        "Pair(3, 4)",
        "UserDict(layers=[1, 2, 3], names=['a', 'b'])",
        "UserDict()",
        "model.state_dict()",
        "OrderedDict(model.named_parameters())",
        "UserDict(output=x @ model.inner.weight.t())",  # What is made of a batch.
        "model.inner",
        "Lists([x, y])",
        "Fails(x=x)",
        "Told(x=x)",
        "Asked(x=x)",
        "Data",
        "'text', 3, None, True",
    ],
)
def test_what_may_be_no_batch_has_no_size(tmp_path: Path, given: str) -> None:
    seen = run(tmp_path, f"for _ in range(20):\n    learn(model({given}))")
    train = seen.tasks["train"]
    assert (train["steps"], train["units"], "items" in train) == (20, "steps", False)
    assert (seen.problems, seen.error) == ([], None)


def test_sizes_may_differ_and_an_evaluation_has_its_own(tmp_path: Path) -> None:
    loop = """
        for i in range(30):
            learn(model(Plain(x=x, batch_size=10 + i % 2)))
            if i % 10 == 9:
                model.eval()
                with torch.no_grad():
                    for _ in range(2):
                        model(Plain(x=x, batch_size=7))
                model.train()
    """
    seen = run(tmp_path, loop)
    told = {name: (task["steps"], task["items"]) for name, task in seen.tasks.items()}
    assert told == {"train": (30, 315), "eval": (6, 42)}
    assert (seen.problems, seen.error) == ([], None)


def test_what_a_tensor_or_a_list_tells_comes_first(tmp_path: Path) -> None:
    loop = """
        for i in range(20):
            learn(model(Plain(x=x, batch_size=7), x if i % 2 else [x, y]))
    """
    assert run(tmp_path, loop).tasks["train"]["items"] == 20 * 24
