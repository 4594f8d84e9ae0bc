"""Single passes in evaluation mode that record gradients, of which nothing is learned."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import watched

HEAD = """
    import time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    data, held = torch.randn(96, 4), torch.randn(40, 4)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def learn(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()

    def look():
        model.eval()
        model(held)
"""
#: Loops of 20 steps, with an evaluation without ``no_grad`` behind each epoch.
LOOPS = {
    "one batch": ("for _ in range(20):\n    model.train(); learn(data); look()", 20 * 96, 20),
    "parts": (
        "for _ in range(5):\n    model.train(); [learn(x) for x in data.split(24)]; look()",
        5 * 96,
        5,
    ),
    "a loader": (
        "for _ in range(5):\n    model.train(); [learn(x) for x in DataLoader(data, 24)]; look()",
        5 * 96,
        5,
    ),
    "within a turn": (
        "for x in list(data.split(24)) * 5:\n    look(); model.train(); learn(x)",
        5 * 96,
        20,
    ),
    "none": ("for _ in range(20):\n    model.eval(); learn(data)", 20 * 96, None),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_an_evaluation_of_one_pass_is_told_though_gradients_are_recorded(
    tmp_path: Path, loop: str
) -> None:
    script, items, evaluated = LOOPS[loop]
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + script)
    seen = watched(path)
    assert (seen.error, seen.problems) == (None, [])
    train = seen.tasks["train"]
    assert train["steps"] == 20
    assert train["items"] == items
    told = seen.tasks.get("eval")
    assert (told and (told["steps"], told["items"])) == (evaluated and (evaluated, 40 * evaluated))
