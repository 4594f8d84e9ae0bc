"""An evaluation of one forward pass in every turn of a training on one batch, as of a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.auto.resumed import Resumed

from .conftest import explained, watched

TURNS, METRICS, PREPARES = 15, 0.02, 0.03

SCRIPT = f"""
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
inputs, targets = torch.randn(50, 4), torch.randn(50, 1)

def train():
    PREPARE
    model.train()
    optimizer.zero_grad()
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    optimizer.step()

@torch.no_grad()
def test():
    model.eval()
    model(inputs)
    time.sleep({METRICS})

for _ in range({TURNS}):
    train()
    test()
"""


def test_what_lies_behind_its_forward_is_no_part_of_the_next_step(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(SCRIPT.replace("PREPARE", "pass"))
    tasks = watched(script).tasks
    train, test = tasks["train"], tasks["eval"]
    assert (train["steps"], train["items"]) == (test["steps"], test["items"]) == (TURNS, 750)
    assert explained(train["pause"]) == TURNS - 1
    assert train["pause"]["seconds"] >= (TURNS - 1) * METRICS


def test_a_batch_that_is_made_for_the_step_is_its_own(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    made = f"inputs = torch.randn(50, 4); time.sleep({PREPARES})"
    script.write_text(SCRIPT.replace("PREPARE", made))
    train = watched(script).tasks["train"]
    assert train["steps"] == TURNS
    assert train["rate"]["median"] <= 50 / PREPARES


def test_training_goes_on_with_zero_gradients_or_with_the_first_forward() -> None:
    resumed = Resumed()
    resumed.evaluated()
    resumed.zeroed(5)
    resumed.zeroed(6)
    resumed.begins(7, same=True)
    assert (resumed.take(), resumed.take(), resumed.waits) == (5, 0, False)
    resumed.zeroed(8)
    resumed.evaluated()  # Those were put to zero before it.
    resumed.begins(9, same=True)
    assert resumed.take() == 9
    resumed.evaluated()
    resumed.begins(10, same=False)
    assert resumed.take() == 0
