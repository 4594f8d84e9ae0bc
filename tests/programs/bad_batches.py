"""Batches whose loss is not finite are left out before their backward."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth, linear

truth = Truth(47)
data = torch.randn(60, 4)
data[17] = data[42] = float("nan")
model, optimizer = linear()
for _ in range(3):
    items = 0
    for (x,) in DataLoader(TensorDataset(data), batch_size=5):
        loss = model(x).pow(2).mean()
        items += len(x)  # What was looked at and left out counts for the next step.
        if not torch.isfinite(loss):
            optimizer.zero_grad()
            continue
        truth.step(items, loss, optimizer)
        items = 0
truth.tell()
