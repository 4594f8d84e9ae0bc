"""Batches from a generator function, an evaluation from the same."""

import torch
from truth import Truth


def batches(x, y, size, shuffle=False):
    order = torch.randperm(len(x)) if shuffle else torch.arange(len(x))
    for start in range(0, len(x), size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


torch.manual_seed(21)
truth = Truth()
x, y = torch.randn(62, 4), torch.randn(62, 1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    model.train()
    for xb, yb in batches(x, y, 8, shuffle=True):
        loss = torch.nn.functional.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(xb), loss)
    model.eval()
    with torch.no_grad():
        for xb, _ in batches(x[:30], y[:30], 10):
            model(xb)
            truth.evaluated(len(xb))
truth.tell()
