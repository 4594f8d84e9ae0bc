"""Optimizers step in what torch.compile compiles: alone, or with all of the step."""

import warnings

import torch
import torch._dynamo
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

warnings.simplefilter("ignore")  # Those of what is imported to compile.
truth = Truth(50)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.compile(backend="eager")
def update():
    optimizer.step()


@torch.compile(backend="eager")
def learn(x):
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


for _ in range(6):
    x = torch.randn(5, 4)
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    update()
    truth.step(5, loss)
optimizer.zero_grad()
for _ in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=8):
        truth.step(len(x), learn(x))
torch._dynamo.reset()
truth.tell()
