"""Evaluations whose loader is read ahead of the work, as Accelerate and prefetchers do it."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from overseer.clock import FakeClock

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import Watched, watched

#: Batches of 8, of which the last has 4, each loaded in so many seconds.
HEAD = """
    import passing as time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)

    def loader(n, seconds=0):
        def collate(samples):
            time.sleep(seconds)
            return torch.stack(samples)

        return DataLoader(list(torch.randn(8 * n - 4, 4)), batch_size=8, collate_fn=collate)

    def ahead(batches, many=1):
        waiting = []
        for batch in batches:
            waiting.append(batch)
            if len(waiting) > many:
                yield waiting.pop(0)
        yield from waiting

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x):
            time.sleep(WORK)
            return self.inner(x[:, :4].reshape(-1, 4))

    model = Model()
    optimizers = []

    def optimize(parameters):
        optimizers.append(torch.optim.SGD(parameters, lr=0.01))

    def train(batches):
        model.train()
        for x in batches:
            model(x).mean().backward()
            for each in optimizers:
                each.step()
                each.zero_grad()

    def evaluate(batches, model=model, learns=False, grad=False):
        model.train(learns)
        with torch.set_grad_enabled(grad):
            for x in batches:
                model(x)
    """


def run(tmp_path: Path, script: str, work: float = 0) -> Watched:
    """Run a script, of which each forward pass takes so many seconds; no others pass."""
    path, clock = tmp_path / "main.py", FakeClock(10**12)
    path.write_text(dedent(HEAD).replace("WORK", str(work)) + dedent(script))
    passing: Any = ModuleType("passing")
    passing.sleep = clock.advance
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "passing", passing)
        seen = watched(path, clock=clock)
    assert (seen.error, seen.problems) == (None, [])
    return seen


def counts(seen: Watched) -> dict[str, tuple[int, int]]:
    """Steps and items of each task."""
    return {name: (task["steps"], task["items"]) for name, task in seen.tasks.items()}


#: What is evaluated behind each of three epochs, and the steps and items that come of it.
EVALUATIONS = {
    "of all": ("evaluate(ahead(held))", (5, 36)),
    "two ahead": ("evaluate(ahead(held, 2))", (5, 36)),
    "of two batches": ("evaluate(ahead(loader(2)))", (2, 12)),
    "of one": ("evaluate(ahead(loader(1)))", (1, 4)),
    "of another model": ("evaluate(ahead(held), other)", (5, 36)),
    "in training mode": ("evaluate(ahead(held), model, True)", (5, 36)),
    "with gradients": ("evaluate(ahead(held), grad=True)", (5, 36)),
    "broken off": ("evaluate(islice(ahead(held), 3))", (3, 24)),
    "broken off behind one": (
        "it = ahead(held); evaluate(islice(it, 3)); next(it); it.close()",
        (3, 24),
    ),
    "of parts of samples": (
        "evaluate(x.repeat(1, 3).reshape(-1, 4) for x in ahead(held))",
        (5, 36),
    ),
    "not ahead": ("evaluate(held)", (5, 36)),
    "not ahead, broken off": ("evaluate(islice(held, 3))", (3, 24)),
    "not ahead, without the first": ("evaluate(islice(held, 2, None))", (3, 20)),
    "not ahead, looked at": ("next(iter(held)); evaluate(held)", (5, 36)),
}


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("batches", ["ahead(data)", "data"], ids=["ahead", "plain"])
def test_each_pass_has_its_own_batch(tmp_path: Path, batches: str, evaluation: str) -> None:
    script, (steps, items) = EVALUATIONS[evaluation]
    seen = run(
        tmp_path,
        f"""
        from itertools import islice

        optimize(model.parameters())
        data, held, other = loader(7), loader(5), Model()
        for _ in range(3):
            train({batches})
            {script}
        """,
    )
    assert counts(seen) == {"train": (21, 3 * 52), "eval": (3 * steps, 3 * items)}


@pytest.mark.parametrize("many", [1, 2, 3])
def test_each_pass_has_its_own_batch_where_nothing_is_trained(tmp_path: Path, many: int) -> None:
    seen = run(
        tmp_path,
        f"""
        for _ in range(3):
            evaluate(ahead(loader(5), {many}))
        """,
    )
    assert counts(seen) == {"inference": (15, 108)}


#: What makes the script's optimizers, and the batches of its training and of its evaluation.
LOOPS = {
    "ahead": ("", "ahead(data)", "ahead(held)"),
    # As Accelerate does it, which prepares an optimizer.
    "its optimizer's state is loaded": (
        "optimizers[0].load_state_dict(optimizers[0].state_dict())",
        "ahead(data)",
        "ahead(held)",
    ),
    "two optimizers share a model": (
        "optimize([model.inner.bias])",
        "ahead(data)",
        "ahead(held)",
    ),
    "only the evaluation": ("", "data", "ahead(held)"),
    "neither": ("", "data", "held"),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_waits_for_an_evaluations_batches_are_its_own(tmp_path: Path, loop: str) -> None:
    optimizers, batches, evaluated = LOOPS[loop]
    seen = run(
        tmp_path,
        f"""
        data, held = loader(5, 0.002), loader(4, 0.03)
        optimize(model.parameters())
        {optimizers}
        for _ in range(3):
            train({batches})
            evaluate({evaluated})
        """,
        work=0.01,
    )
    assert counts(seen) == {"train": (15, 108), "eval": (12, 84)}
    trained, told = seen.tasks["train"], seen.tasks["eval"]
    assert told["rate"]["n"] >= 10
    per_step = told["loading"]["seconds"] / told["rate"]["n"]
    assert 0.025 < per_step < 0.06
    assert told["first_step_seconds"] > 0.038
    assert trained["loading"]["seconds"] / trained["rate"]["n"] < 0.012
