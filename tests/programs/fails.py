"""A script whose first step fails, and which goes on after that."""

import torch
from truth import Truth

truth = Truth(28, unknown="items")  # After a backward that failed, a model was called twice.


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 1)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = self.inner(x)
        if self.calls in (1, 4):
            raise RuntimeError("out of memory")
        return out


class Half(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x / 2

    @staticmethod
    def backward(context, grad):
        raise ValueError("no gradient")


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
items = 0
for step in range(8):
    x = torch.randn(5, 4)
    try:
        loss = model(x).pow(2).mean()
        items += len(x)  # Those whose backward fails are counted with the next step's.
        optimizer.zero_grad()
        if step == 5:
            Half.apply(loss).backward()
        loss.backward()
        optimizer.step()
    except (RuntimeError, ValueError) as error:
        print(step, error)
        optimizer.zero_grad()
        continue
    truth.step(items, loss)
    items = 0
truth.tell()
