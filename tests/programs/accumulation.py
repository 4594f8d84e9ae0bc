"""Gradients accumulated over four batches of a loader, and over what is left at the end."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(8)
data = TensorDataset(torch.randn(38, 4), torch.randn(38, 1))
loader = DataLoader(data, batch_size=4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
items, total = 0, 0
for i, (x, y) in enumerate(loader):
    loss = torch.nn.functional.mse_loss(model(x), y) / 4
    loss.backward()
    items, total = items + len(x), total + loss.detach()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
        truth.step(items, total if (i + 1) % 4 == 0 else None)  # Else the sum is no mean.
        items, total = 0, 0
truth.tell()
