"""A script that puts its own functions in the place of torch's."""

import torch
from training import Truth

truth = Truth(18)
original, calls = torch.Tensor.backward, []


def backward(self, *args, **kwargs):
    calls.append(self.item())
    return original(self, *args, **kwargs)


called = torch.nn.Module.__call__


def call(self, *args, **kwargs):
    return called(self, *args, **kwargs)


torch.Tensor.backward, torch.nn.Module.__call__ = backward, call
try:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        x = torch.randn(3, 4)
        loss = model(x).pow(2).mean()
        truth.step(3, loss, optimizer)
finally:
    torch.Tensor.backward, torch.nn.Module.__call__ = original, called
truth.tell()
