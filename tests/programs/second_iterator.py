"""A second iterator over the loader that is trained on gives a sample in each step."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth, linear

truth = Truth(74)
loader = DataLoader(TensorDataset(torch.randn(23, 4)), batch_size=10)
model, optimizer = linear()
for _ in range(4):
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        (sample,) = next(iter(loader))
        optimizer.step()
        truth.step(len(x), loss)
truth.tell()
