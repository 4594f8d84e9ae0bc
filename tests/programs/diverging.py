"""A training that diverges: the losses grow until they are no numbers, and it goes on."""

import torch
from truth import Truth

torch.manual_seed(48)
truth = Truth()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
for _ in range(30):
    x = torch.randn(5, 4)
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth.step(5, loss)
truth.tell()
