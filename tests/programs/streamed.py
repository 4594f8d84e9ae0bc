"""A stream without an end or a length, learned from until there were enough steps."""

import itertools

import torch
from torch.utils.data import DataLoader, IterableDataset
from truth import Truth


class Stream(IterableDataset):
    def __iter__(self):
        for i in itertools.count():
            yield torch.full((4,), i % 7 / 7), torch.tensor([i % 2.0])


torch.manual_seed(20)
truth = Truth()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
max_steps = 25
for step, (x, y) in enumerate(DataLoader(Stream(), batch_size=6)):
    if step >= max_steps:
        break
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    truth.step(len(x), loss)
truth.tell()
