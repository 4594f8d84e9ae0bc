"""A ``backward`` of the script's own, which calls autograd's engine itself: no loss to be seen."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(34)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def backward(loss):
    engine = torch.autograd.Variable._execution_engine
    ones = (torch.ones_like(loss),)
    engine.run_backward(
        (loss,), ones, False, False, (), allow_unreachable=True, accumulate_grad=True
    )


for _ in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(50, 4)), batch_size=8):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
        truth.step(len(x), loss)
truth.losses = []
truth.tell()
