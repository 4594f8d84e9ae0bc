"""Batches taken from a queue until it is empty; 12 of 8."""

import torch
from torch import nn

queue = [torch.randn(8, 2) for _ in range(12)]
queue_of_losses = []
m = nn.Linear(2, 1)
optimizer = torch.optim.SGD(m.parameters(), lr=0.01)


def take():
    return queue.pop() if queue else None


def go():
    while (chunk := take()) is not None:
        optimizer.zero_grad()
        (loss := m(chunk).pow(2).mean()).backward()
        optimizer.step()
        queue_of_losses.append(loss.detach())


go()
