"""Two loaders take turns: a step from one, then a step from the other, one optimizer."""

import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(54)
loaders = [
    DataLoader(TensorDataset(torch.randn(n, 4)), batch_size=k) for n, k in ((40, 8), (18, 5))
]
body, heads = nn.Linear(4, 6), [nn.Linear(6, 1), nn.Linear(6, 2)]
optimizer = torch.optim.Adam(itertools.chain(body.parameters(), *(h.parameters() for h in heads)))
iterators = [iter(loader) for loader in loaders]
for step in range(24):
    task = step % 2
    try:
        (x,) = next(iterators[task])
    except StopIteration:
        iterators[task] = iter(loaders[task])
        (x,) = next(iterators[task])
    loss = heads[task](body(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth.step(len(x), loss)
truth.tell()
