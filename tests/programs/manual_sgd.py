"""No optimizer at all: parameters are changed by hand."""

import torch
from truth import Truth

truth = Truth(14)
w = torch.zeros(4, 1, requires_grad=True)
x = torch.randn(20, 4)
y = x.sum(dim=1, keepdim=True)
for _ in range(6):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.05 * w.grad
        w.grad.zero_()
    truth.step(None, loss)
truth.tell()
