"""torch is imported where it is used, and only if it is."""

import sys


def train(torch, truth):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        x = torch.randn(3, 4)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(3, loss)


if "--dry" not in sys.argv:
    from importlib import import_module

    torch = import_module("torch")
    from truth import Truth

    truth = Truth(19)
    train(torch, truth)
    truth.tell()
