"""Loaders of one run that mean different things by a list: each task's items are its own."""

from __future__ import annotations

import pytest

from tests.running import Place

#: Two epochs of 20 pairs of 32, and of ten lists of eight utterances.
PROBED = """
    import random
    import sys

    import numpy as np

    of = {"list": list, "tuple": tuple}[sys.argv[1]]

    def pairs():
        for _ in range(20):
            yield of([np.zeros((32, 10)), np.zeros(32)])

    def utterances():
        for _ in range(10):
            yield of(np.zeros(random.randint(1000, 2000)) for _ in range(8))

    def train(loader):
        for batch in loader:
            pass

    def evaluate(loader):
        for batch in loader:
            pass

    for turn in sys.argv[2]:
        train(pairs()) if turn == "t" else evaluate(utterances())
    """
PROBES = """
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("//train(batch) > #endloop_batch as step").give()
        evaluation = ov.probe("//evaluate(batch) > #endloop_batch as step")
        evaluation.map(lambda event: {**event, "task": "eval"}).give()
    """
HEAD = """
    import random

    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def learn(loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
#: Two epochs of 20 pairs of 32 and of ten lists of eight utterances, and as many of tuples.
PLAIN = """
    utterances = [torch.randn(random.randint(100, 200), 10) for _ in range(80)]
    data = TensorDataset(torch.randn(640, 10), torch.randn(640, 1))
    pairs = lambda rows: tuple(map(torch.stack, zip(*rows)))
    loaders = [
        (DataLoader(data, 32), DataLoader(utterances, 8, collate_fn=list)),
        (DataLoader(data, 32, collate_fn=pairs), DataLoader(utterances, 8, collate_fn=tuple)),
    ]
    for train, val in loaders * 2:
        model.train()
        for x, y in train:
            learn(nn.functional.mse_loss(model(x), y))
        model.eval()
        with torch.no_grad():
            for batch in val:
                model(torch.cat(batch))
    """
#: So many steps that most are light ones; the utterances of the first are equally long.
ONE = """
    lengths = (150 if i < 8 else random.randint(5, 20) for i in range(8 * 300))
    utterances = [torch.randn(length, 10) for length in lengths]
    for batch in DataLoader(utterances, 8, collate_fn=list):
        learn(model(torch.cat(batch)).mean())
    """


@pytest.mark.parametrize("turns", ["tete", "etet"])
@pytest.mark.parametrize("of", ["list", "tuple"])
def test_steps_of_samples_beside_steps_of_pairs(place: Place, of: str, turns: str) -> None:
    pytest.importorskip("numpy")
    place.write("main.py", PROBED)
    place.write("voirfile.py", PROBES)
    assert place.voir("main.py", of, turns).status == 0
    tasks = place.record()["tasks"]
    assert {name: task["items"] for name, task in tasks.items()} == {"train": 1280, "eval": 160}


def test_plain_scripts_whose_evaluation_has_lists_of_samples(place: Place) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    place.write("main.py", HEAD + PLAIN)
    assert place.voir("--no-voirfile", "main.py").status == 0
    tasks = place.record()["tasks"]
    assert {name: task["items"] for name, task in tasks.items()} == {"train": 2560, "eval": 320}


def test_of_one_loader_the_first_batch_alone_is_misread(place: Place) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    place.write("main.py", HEAD + ONE)
    assert place.voir("--no-voirfile", "main.py").status == 0
    train = place.record()["tasks"]["train"]
    assert (train["steps"], train["items"]) == (300, 150 + 299 * 8)
