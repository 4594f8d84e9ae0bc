"""Batches of two loaders are taken together, and learned from one after the other."""

import torch
from torch.utils.data import DataLoader
from truth import Truth

truth = Truth(67)
trunk, heads = torch.nn.Linear(4, 3), [torch.nn.Linear(3, 1) for _ in range(2)]
parameters = [p for module in (trunk, *heads) for p in module.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)


def losses(*batches):
    for head, x in zip(heads, batches, strict=True):
        loss = head(trunk(x)).pow(2).mean()
        loss.backward()
        yield loss, len(x)


made = []  # They stay.


def loaders(*sizes):
    made.append([DataLoader(torch.randn(10 * size, 4), batch_size=size) for size in sizes])
    return made[-1]


for sizes in ((5, 5), (7, 3), (3, 7)):
    for batches in zip(*loaders(*sizes), strict=True):
        for loss, items in losses(*batches):
            optimizer.step()
            optimizer.zero_grad()
            truth.step(items, loss)
for batches in zip(*loaders(3, 7), strict=True):
    total = sum(loss.detach() for loss, _ in losses(*batches))
    optimizer.step()  # One step learns from both: the larger one counts.
    optimizer.zero_grad()
    truth.step(7, total)
truth.tell()
