"""``rate(batch_size_calc=...)`` in plain PyTorch scripts: it is asked wherever a batch is sized."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")


from instruments.rate import rate

from .conftest import Watched, watched

HEAD = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x=None, scale=1, many=None):
            return self.inner(x if x is not None else torch.stack(many)) * scale

    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(1600, 4), torch.randn(1600, 2))
    x, y = torch.randn(16, 4), torch.randn(16, 2)

    def learn(output, y):
        optimizer.zero_grad()
        nn.functional.mse_loss(output, y).backward()
        optimizer.step()
    """
#: So many steps that most are light ones.
LOOPS = {
    "loader": "for x, y in DataLoader(data, batch_size=16):\n    learn(model(x), y)",
    "tensor": "for _ in range(100):\n    learn(model(x), y)",
}


def run(tmp_path: Path, loop: str, size: Any, *options: str) -> Watched:
    """Run a loop, of whose batches the function says how large they are."""
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + dedent(loop))
    asked = rate(batch_size_calc=size)
    return watched(path, *options, instruments=(asked,))


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("size", [lambda batch: 100, 100], ids=["function", "number"])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_function_sizes_every_step(tmp_path: Path, loop: str, size: Any, times: int) -> None:
    seen = run(tmp_path, LOOPS[loop], size, "--items-per-step", str(times))
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (100, 100 * 100 * times)
    assert (seen.problems, seen.error) == ([], None)


def test_it_is_asked_of_the_loaders_batch_once(tmp_path: Path) -> None:
    asked: list[Any] = []

    def size(batch: Any) -> int:
        asked.append(batch)
        return batch[0].numel()  # type: ignore[no-any-return]

    seen = run(tmp_path, LOOPS["loader"], size)
    assert seen.tasks["train"]["items"] == 1600 * 4
    assert len(asked) == 100
    assert {type(batch) for batch in asked} == {list}


@pytest.mark.parametrize(
    ("call", "items"),
    [
        ("model(x)", 64),  # A tensor's.
        ("model(x, 2)", 2),  # What is given by position, in a tuple.
        ("model(x, scale=2)", 64),
        ("model(x=x, scale=2)", 7),  # What is given by name, in a dictionary.
        ("model(many=list(x))", 7),
    ],
)
def test_without_a_loader_it_is_asked_of_what_the_model_is_given(
    tmp_path: Path, call: str, items: int
) -> None:
    def size(batch: Any) -> int:
        if isinstance(batch, dict):
            return 7
        return len(batch) if isinstance(batch, tuple) else batch.numel()  # type: ignore[no-any-return]

    seen = run(tmp_path, f"for _ in range(60):\n    learn({call}, y)", size)
    assert seen.tasks["train"]["items"] == 60 * items
    assert seen.problems == []


def test_sizes_may_differ_from_step_to_step(tmp_path: Path) -> None:
    sizes = iter(range(1, 1000))
    seen = run(tmp_path, LOOPS["loader"], lambda batch: next(sizes))
    assert seen.tasks["train"]["items"] == sum(range(1, 101))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_function_that_fails_is_told_once_and_its_steps_have_no_items(
    tmp_path: Path, loop: str
) -> None:
    seen = run(tmp_path, LOOPS[loop], lambda batch: batch.rows)
    train = seen.tasks["train"]
    assert (train["steps"], train["units"], "items" in train) == (100, "steps", False)
    (problem,) = seen.problems
    assert "how many items a batch holds is not known: <lambda> raised AttributeError" in problem


def test_a_function_that_fails_for_some_batches_sizes_the_others(tmp_path: Path) -> None:
    calls = iter(range(1000))
    seen = run(tmp_path, LOOPS["loader"], lambda batch: 1 / 0 if next(calls) % 10 == 3 else 5)
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (100, 90 * 5)
    assert len(seen.problems) == 1


def test_a_batch_that_is_impossibly_large_has_no_size(tmp_path: Path) -> None:
    seen = run(tmp_path, LOOPS["loader"], lambda batch: 2**62, "--items-per-step", "4")
    assert "items" not in seen.tasks["train"]
    assert len(seen.problems) == 1
    assert "more than a batch can hold" in seen.problems[0]


def test_beside_a_loader_it_is_not_asked_of_what_models_are_given(tmp_path: Path) -> None:
    """It knows the loader's batches, and would fail with, or be wrong of, a bare tensor."""
    loop = """
        model(torch.zeros(3, 4))
        for i, (x, y) in enumerate(DataLoader(data, batch_size=16)):
            learn(model(x), y)
            if i % 10 == 9:
                model.eval()
                with torch.no_grad():
                    model(torch.zeros(5, 4))
                model.train()
    """
    seen = run(tmp_path, loop, lambda batch: batch["never"] if not isinstance(batch, list) else 9)
    assert seen.tasks["train"]["items"] == 900
    assert seen.tasks["eval"]["items"] == 50
    assert seen.problems == []


def test_it_is_asked_of_the_batches_of_an_evaluation_too(tmp_path: Path) -> None:
    loop = """
        loader, other = DataLoader(data, batch_size=16), DataLoader(data, batch_size=160)
        for x, y in loader:
            learn(model(x), y)
        model.eval()
        with torch.no_grad():
            for x, y in other:
                model(x)
    """
    seen = run(tmp_path, loop, lambda batch: 9)
    assert {name: task["items"] for name, task in seen.tasks.items()} == {"train": 900, "eval": 90}


def test_of_loaders_that_are_read_together_the_larger_one_counts(tmp_path: Path) -> None:
    loop = """
        loaders = DataLoader(data, batch_size=16), DataLoader(data, batch_size=16)
        for (x, y), (z, _) in zip(*loaders):
            learn(model(x) + model(z), y)
    """
    sizes = iter(range(1000))
    seen = run(tmp_path, loop, lambda batch: 3 + next(sizes) % 2)
    assert seen.tasks["train"]["items"] == 400
    failing = run(tmp_path, loop, lambda batch: None)
    assert "items" not in failing.tasks["train"]


def test_accumulated_batches_are_added_up(tmp_path: Path) -> None:
    loop = """
        for i, (x, y) in enumerate(DataLoader(data, batch_size=16)):
            nn.functional.mse_loss(model(x), y).backward()
            if i % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    """
    seen = run(tmp_path, loop, lambda batch: 9)
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (25, 900)


#: Epochs of 40 steps, the later of them light ones, each of a loader that is made for it.
EPOCHS = {
    "script": """
        for _ in range(3):
            loader = DataLoader(Subset(data, range(640)), batch_size=16)
            kept.append(loader)
            for x, y in loader:
                learn(model(x), y)
            model.eval()
            with torch.no_grad():
                for x, y in DataLoader(Subset(data, range(200)), batch_size=HELD):
                    model(x)
            model.train()
        """,
    "functions": """
        def train(model, loader):
            model.train()
            for x, y in loader:
                learn(model(x), y)

        def evaluate(model, loader):
            model.eval()
            with torch.no_grad():
                return sum(model(x).sum().item() for x, y in loader)

        for _ in range(3):
            loader = DataLoader(Subset(data, range(640)), batch_size=16)
            kept.append(loader)
            train(model, loader)
            evaluate(model, DataLoader(Subset(data, range(200)), batch_size=HELD))
        """,
}


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long steps are, they get light."""
    monkeypatch.setattr("instruments.auto.light.FULL_NS", 10**12)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("held", [8, 200])
@pytest.mark.parametrize("epochs", EPOCHS)
def test_a_new_loaders_first_step_is_not_sized_by_the_evaluation_before(
    tmp_path: Path, epochs: str, held: int
) -> None:
    head = f"from torch.utils.data import Subset\nHELD, kept = {held}, []\n"
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + head + dedent(EPOCHS[epochs]))
    seen = watched(path)
    train, evaluation = seen.tasks["train"], seen.tasks["eval"]
    assert (train["steps"], train["items"]) == (120, 1920)
    assert (evaluation["steps"], evaluation["items"]) == (3 * 200 // held, 600)
    assert (seen.problems, seen.error) == ([], None)


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("other", [8, 200])
def test_a_light_step_is_not_sized_by_a_batch_that_another_loader_gives_meanwhile(
    tmp_path: Path, other: int
) -> None:
    loop = """
        others = DataLoader(data, batch_size=OTHER)
        for i, (x, y) in enumerate(DataLoader(data, batch_size=16)):
            if i % 50 == 45:
                next(iter(others))
            learn(model(x), y)
    """
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + f"OTHER = {other}\n" + dedent(loop))
    seen = watched(path)
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (100, 1600)


#: Each evaluation's loader has the address of the training's before it, which is gone.
REUSED = """
    class Some:
        def __init__(self, size):
            self.size = size

        def __iter__(self):
            return (range(i, min(i + self.size, 96)) for i in range(0, 96, self.size))

    def turn(batches, train):
        model.train(train)
        with torch.set_grad_enabled(train):
            for x, y in DataLoader(data, batch_sampler=batches):
                output = model(x)
                if train:
                    learn(output, y)

    hits, held = 0, []
    for epoch in range(10):
        some = Some(32)  # Not at the address of the last evaluation's, which is held.
        turn(some, True)
        address = id(some)
        del some
        others = [Some(40)]
        while id(others[-1]) != address and len(others) < 3000:  # Most often it is the first.
            others.append(Some(40))
        hits += id(others[-1]) == address
        held = others
        turn(held[-1], False)
    print(hits)
"""


def test_a_loader_at_the_address_of_one_that_is_gone_is_another(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + dedent(REUSED))
    seen = watched(path)
    assert int(seen.output) > 5
    told = {task: (each["steps"], each["items"]) for task, each in seen.tasks.items()}
    assert told == {"train": (30, 960), "eval": (30, 960)}
