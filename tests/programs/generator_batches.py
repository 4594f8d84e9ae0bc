"""Batches from a generator function, an evaluation from the same."""

import torch
from training import Truth, linear


def batches(x, y, size, shuffle=False):
    order = torch.randperm(len(x)) if shuffle else torch.arange(len(x))
    for start in range(0, len(x), size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


truth = Truth(21)
x, y = torch.randn(62, 4), torch.randn(62, 1)
model, optimizer = linear()
for _ in range(4):
    for xb, yb in batches(x, y, 8, shuffle=True):
        loss = torch.nn.functional.mse_loss(model(xb), yb)
        truth.step(len(xb), loss, optimizer)
    truth.evaluate(model, batches(x[:30], y[:30], 10))
truth.tell()
