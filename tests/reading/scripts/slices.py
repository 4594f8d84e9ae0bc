"""Batches are slices of tensors in memory; 12 steps of 8."""

import torch

X, Y = torch.randn(96, 8), torch.randn(96, 1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
order = torch.randperm(len(X))
for start in range(0, len(X), 8):
    index = order[start : start + 8]
    xb, yb = X[index], Y[index]
    loss = ((model(xb) - yb) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
