"""A training that diverges: the losses grow until they are no numbers, and it goes on."""

import torch
from training import Truth, linear

truth = Truth(48)
model, optimizer = linear(lr=1e6)
for _ in range(30):
    x = torch.randn(5, 4)
    loss = model(x).pow(2).mean()
    truth.step(5, loss, optimizer)
truth.tell()
