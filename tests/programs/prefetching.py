"""The next batch is fetched before the work on one begins, as Accelerate does it."""

import torch
from training import Truth, batches, linear

truth = Truth(29)
loader = batches(42, 4, 1)
model, optimizer = linear()


def ahead(loader):
    iterator = iter(loader)
    current = next(iterator)
    for following in iterator:
        yield current
        current = following
    yield current


for _ in range(8):
    for x, y in ahead(loader):
        loss = torch.nn.functional.mse_loss(model(x), y)
        truth.step(len(x), loss, optimizer)
truth.tell()
