"""A stream without an end or a length, learned from until there were enough steps."""

import itertools

import torch
from torch.utils.data import DataLoader, IterableDataset
from training import Truth, linear


class Stream(IterableDataset):
    def __iter__(self):
        for i in itertools.count():
            yield torch.full((4,), i % 7 / 7), torch.tensor([i % 2.0])


truth = Truth(20)
model, optimizer = linear()
for step, (x, y) in enumerate(DataLoader(Stream(), batch_size=6)):
    if step >= 25:
        break
    loss = torch.nn.functional.mse_loss(model(x), y)
    truth.step(len(x), loss, optimizer)
truth.tell()
