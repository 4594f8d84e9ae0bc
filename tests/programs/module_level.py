"""A loop at module level, batches from a function, no loader."""

import torch
from truth import Truth

truth = Truth(3)
weights = torch.randn(8, 1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def get_batch(size=12):
    x = torch.randn(size, 8)
    return x, x @ weights


step = 0
while True:
    X, Y = get_batch(12 if step < 9 else 5)
    loss = ((model(X) - Y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    truth.step(len(X), loss)
    step += 1
    if step == 10:
        break
truth.tell()
