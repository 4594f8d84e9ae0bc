"""Steps that were all alike, and short, then are not: gradients are accumulated."""

import torch
from truth import Truth

truth = Truth(2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step(passes):
    total = 0.0
    for _ in range(passes):
        loss = model(torch.randn(3, 4)).pow(2).mean()
        loss.backward()
        total += loss.detach()
    optimizer.step()
    optimizer.zero_grad()
    truth.step(3 * passes, total)


for steps, passes in ((80, 1), (10, 2), (80, 1), (10, 3), (60, 1)):
    for _ in range(steps):
        step(passes)
truth.tell()
