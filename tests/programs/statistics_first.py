"""The mean of the data is computed by a pass over the loader, before the training goes over it."""

import torch
from training import Truth, batches, linear

truth = Truth(73)
loader = batches(75, 8)
total = torch.zeros(4)
for (x,) in loader:
    total += x.sum(0)
mean = total / 75
model, optimizer = linear()
for _ in range(2):
    for (x,) in loader:
        loss = model(x - mean).pow(2).mean()
        truth.step(len(x), loss, optimizer)
truth.tell()
