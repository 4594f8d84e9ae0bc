"""Learning to learn: inner steps by autograd.grad on functions, one outer step of an optimizer."""

import torch
import torch.nn.functional as F
from training import Truth

truth = Truth(46, unknown="items")  # No model is called.
weights = [torch.randn(8, 1, requires_grad=True), torch.zeros(8, requires_grad=True)]
weights += [torch.randn(1, 8, requires_grad=True), torch.zeros(1, requires_grad=True)]
optimizer = torch.optim.Adam(weights, lr=1e-3)


def net(x, w):
    return F.linear(F.relu(F.linear(x, w[0], w[1])), w[2], w[3])


for _ in range(8):
    total = 0.0
    for _ in range(4):
        x = torch.rand(10, 1)
        y = torch.sin(3 * x)
        loss = F.mse_loss(net(x, weights), y)
        slopes = torch.autograd.grad(loss, weights, create_graph=True)
        adapted = [w - 0.01 * slope for w, slope in zip(weights, slopes, strict=True)]
        total = total + F.mse_loss(net(x, adapted), y)
    truth.step(4, total, optimizer)
truth.tell()
