"""Batches that a model is given without gradients before it learns from them: no evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import explained, watched

#: What several batches come to without gradients goes into the losses of each of them.
SCRIPT = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = DataLoader(list(torch.randn(192, 4)), batch_size=8)
held = DataLoader(list(torch.randn(40, 4)), batch_size=8)
for epoch in range(3):
    model.train()
    batches, known = [], []
    for number, x in enumerate(data, 1):
        with torch.no_grad():
            known.append(model(x))
        batches.append(x)
        if number % 3:
            continue
        optimizer.zero_grad()
        for at, each in enumerate(batches):
            torch.cat([*known[:at], model(each), *known[at + 1:]]).var().backward()
        optimizer.step()
        batches, known = [], []
    {evaluate}
"""
EVALUATE = """
    model.eval()
    with torch.no_grad():
        for x in held:
            model(x)
"""


@pytest.mark.parametrize("evaluates", [False, True])
def test_what_is_looked_at_before_is_a_part_of_the_step(evaluates: bool, tmp_path: Path) -> None:
    script = SCRIPT.replace("{evaluate}", EVALUATE if evaluates else "")
    (tmp_path / "main.py").write_text(script)
    tasks = watched(tmp_path / "main.py").tasks
    train = tasks["train"]
    assert (train["steps"], train["items"]) == (24, 576)
    assert explained(train["pause"]) == 2
    assert "loading" in train
    # Of the very first batches it is not known yet.
    assert tasks["eval"]["steps"] == 3 + 15 * evaluates


def test_an_evaluation_in_training_mode_is_one(tmp_path: Path) -> None:
    script = SCRIPT.replace("{evaluate}", EVALUATE.replace("model.eval()", "pass"))
    script = script.replace("known.append(model(x))", "known.append(torch.zeros(8, 2))")
    (tmp_path / "main.py").write_text(script)
    tasks = watched(tmp_path / "main.py").tasks
    assert (tasks["train"]["steps"], tasks["train"]["items"]) == (24, 576)
    assert (tasks["eval"]["steps"], tasks["eval"]["items"]) == (15, 120)
