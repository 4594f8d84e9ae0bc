"""The model is saved every fifth step, in the middle of an epoch, and when it is the best."""

import io

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(58)
loader = DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
best, step = float("inf"), 0
for _ in range(3):
    for (x,) in loader:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
        step += 1
        if step % 5 == 0:
            torch.save({"step": step, "model": model.state_dict()}, io.BytesIO())
    if loss.item() < best:
        best = loss.item()
        torch.save(model.state_dict(), io.BytesIO())
truth.tell()
