"""LBFGS calls its closure many times: one step each; on batches that become smaller, too."""

import torch
from truth import Truth

truth = Truth(7)
x = torch.randn(16, 4)
y = x.sum(dim=1, keepdim=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=6)


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for _ in range(5):
    loss = optimizer.step(closure)
    truth.step(len(x), loss)
for size in (16, 12, 12, 4, 8):
    x = torch.randn(size, 4)
    y = x.sum(dim=1, keepdim=True)
    loss = optimizer.step(closure)
    truth.step(size, loss)
truth.tell()
