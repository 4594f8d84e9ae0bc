"""Two backwards for one step, and gradients of gradients in between."""

import torch
from truth import Truth

torch.manual_seed(21)
truth = Truth()
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    x = torch.randn(5, 4, requires_grad=True)
    out = model(x)
    optimizer.zero_grad()
    first = out.pow(2).mean()
    first.backward(retain_graph=True)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    second = slope.pow(2).mean()
    torch.autograd.backward([second])
    optimizer.step()
    truth.step(5, first.detach() + second.detach())
truth.tell()
