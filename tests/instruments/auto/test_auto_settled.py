"""A step that is held back, for its iteration may have another optimizer, is told in its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import watched

#: A generator is no loader that says when it is asked; here it is, before or within a step.
SCRIPT = """
import time, torch

def batches():
    while True:
        time.sleep(0.2)
        yield torch.randn(8, 4)

def main():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.01) for part in model]
    source = batches()
    {ahead}
    for _ in range(5):
        {before}
        model(x).pow(2).mean().backward()
        {within}
        for each in optimizers:
            each.step()
            each.zero_grad()
    source.close()

main()
"""
NEXT = "x = next(source)"
FORMS = {
    "asked before": {"ahead": "", "before": NEXT, "within": ""},
    "asked ahead": {"ahead": NEXT, "before": "", "within": NEXT},
}


@pytest.mark.parametrize("form", FORMS)
def test_its_end_is_before_the_next_batch_is_waited_for(form: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SCRIPT.format(**FORMS[form]))
    train = watched(tmp_path / "main.py").tasks["train"]
    assert (train["steps"], train["items"]) == (5, 40)
    waits = 2 if form == "asked ahead" else 1
    assert waits * 0.2 < train["first_step_seconds"] < (waits + 1) * 0.2
