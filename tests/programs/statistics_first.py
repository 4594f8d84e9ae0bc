"""The mean of the data is computed by a pass over the loader, before the training goes over it."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(73)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(75, 4)), batch_size=8)
total = torch.zeros(4)
for (x,) in loader:
    total += x.sum(0)
mean = total / 75
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    for (x,) in loader:
        loss = model(x - mean).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
truth.tell()
