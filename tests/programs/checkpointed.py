"""Activation checkpointing runs forwards and backwards within backward."""

import torch
from torch.utils.checkpoint import checkpoint
from training import Truth

truth = Truth(23)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.b(checkpoint(self.a, x, use_reentrant=True))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    x = torch.randn(6, 4, requires_grad=True)
    loss = model(x).pow(2).mean()
    truth.step(6, loss, optimizer)
truth.tell()
