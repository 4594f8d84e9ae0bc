"""Forward passes in every turn of a loop from which nothing is learned: evaluating, or acting."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import explained, watched

LOOP = """
import time, torch
class Model(torch.nn.Linear):
    def forward(self, x):
        time.sleep(0.004)
        return super().forward(x)
model = Model(8, 2)
o = torch.optim.SGD(model.parameters(), lr=0.01)
x, held_out, state = torch.randn(32, 8), torch.randn(96, 8), torch.randn(1, 8)
for turn in range(40):
    loss = model(x).pow(2).mean()
    o.zero_grad(); loss.backward(); o.step()
    {then}
"""
THEN = """
    model.eval()
    with torch.no_grad():
        for _ in range({times}):
            model({what})
            time.sleep(0.006)
    model.train()
"""


@pytest.mark.parametrize("times", [1, 3])
def test_an_evaluation_in_every_turn_is_a_pause_each_time(times: int, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(LOOP.format(then=THEN.format(times=times, what="held_out")))
    tasks = watched(tmp_path / "main.py").tasks
    train = tasks["train"]
    assert (train["steps"], tasks["eval"]["steps"]) == (40, 40 * times)
    assert explained(train["pause"]) == 39
    # Of the last pass is seen when the model is through with it, not what is done then.
    shortest = 39 * (times * 0.010 - 0.006)
    assert train["pause"]["seconds"] > shortest


def test_what_an_agent_does_in_every_turn_is_no_evaluation(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(LOOP.format(then=THEN.format(times=2, what="state")))
    tasks = watched(tmp_path / "main.py").tasks
    assert "eval" not in tasks
    assert tasks["inference"]["steps"] == 80
    assert explained(tasks["train"]["pause"]) == 0
