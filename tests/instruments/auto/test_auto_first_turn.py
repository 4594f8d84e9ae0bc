"""Evaluations within the first turn of a training, when nothing has been learned from yet."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from instruments.auto.batches import Batches

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import watched

MODEL = 1

#: Of 12 batches of the training's, the last has 4 samples; others have 8.
HEAD = """
    from itertools import islice
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)

    def loader(n, size=8):
        return DataLoader(list(torch.randn(n, 4)), batch_size=size)

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, held, small = loader(92), loader(256, 64), loader(40, 5)

    def evaluate(*loaders, most=99, mode=True, grad=False):
        if mode:
            model.eval()
        with torch.set_grad_enabled(grad):
            for each in loaders:
                for i, x in enumerate(each):
                    if i >= most:
                        break  # What was fetched last is left.
                    model(x)
        model.train()

    turn = 0
    BEFORE
    for epoch in range(2):
        for x in data:
            if turn % 6 == 0:
                EVALUATE
            (model(x).mean() / SPLIT).backward()
            turn += 1
            if turn % SPLIT == 0:
                optimizer.step()
                optimizer.zero_grad()
"""
#: What evaluates, and of how many passes on how many items each time it is known what they are.
EVALUATIONS = {
    "all": ("evaluate(held)", 4, 256),
    "broken off": ("evaluate(held, most=3)", 3, 192),
    "two, broken off": ("evaluate(held, small, most=3)", 6, 207),
    "the training's too, broken off": ("evaluate(data, held, most=3)", 6, 216),
    "some": ("evaluate(islice(held, 2))", 2, 128),
    "gradients are recorded": ("evaluate(held, mode=False, grad=True)", None, None),
    "a batch": ("evaluate(islice(held, 1))", None, None),
    "a batch, in training mode": ("evaluate(islice(held, 1), mode=False)", None, None),
    "a batch of each": ("evaluate(islice(held, 1), islice(small, 1))", 2, 69),
}


@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("before", ["pass", "next(iter(held))", "evaluate(held, most=2)"])
@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_steps_are_of_the_batch_that_was_there_before(
    tmp_path: Path, evaluation: str, before: str, split: int
) -> None:
    what, passes, items = EVALUATIONS[evaluation]
    script = dedent(HEAD).replace("BEFORE", before).replace("SPLIT", str(split))
    path = tmp_path / "main.py"
    path.write_text(script.replace("EVALUATE", what))
    tasks = watched(path).tasks
    assert (tasks["train"]["steps"], tasks["train"]["items"]) == (24 // split, 2 * 92)
    if passes is not None and before == "pass":
        assert (tasks["eval"]["steps"], tasks["eval"]["items"]) == (4 * passes, 4 * items)


#: What a script does before it learns the first time: a loader begins and gives a batch, which a
#: model is given, with gradients or, as a teacher, without; what is learned from is known then.
FIRST = {
    "another loader's beside it": ("A8 B64 g8 g64", 64),
    "a teacher's beside it": ("A8 B64 s64 g64", 64),
    "just looked at": ("A64 B8 g8", 8),
    "just looked at, as large as what a model is given": ("B64 A8 g64", 8),
    "just looked at, of the same size": ("B8 A8 g8", 8),
    "evaluated": ("A8 B64 s64 g8", 8),
    "evaluated, one of which a batch was looked at": ("B64 A8 B64 s64 g8", 8),
    "evaluated, of two loaders": ("A8 B64 s64 C32 s32 g8", 8),
    "evaluated, of two loaders, and left": ("A8 B64 e C32 e B64 g8", 8),
    "evaluated, and the next is fetched": ("A8 B64 e B64 a8 g8", 8),
}


@pytest.mark.parametrize("name", FIRST)
def test_what_is_learned_from_first(name: str) -> None:
    what, items = FIRST[name]
    batches = Batches()
    for each in what.split():
        kind, size = each[0], int(each[1:] or 0)
        if kind == "g":
            batches.seen(size)
            batches.given(MODEL, size)
        elif kind == "s":
            batches.seen(size)
        elif kind == "e":
            batches.evaluated()
        else:
            if kind.isupper():
                batches.begun()
            batches.fetched(kind.upper(), size)
    batches.learned()
    assert batches.take() == items
