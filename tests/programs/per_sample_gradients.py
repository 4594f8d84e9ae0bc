"""Gradients of each sample, by torch.func: an optimizer steps, and there is no backward."""

import torch
from torch.func import functional_call, grad_and_value, vmap
from truth import Truth

torch.manual_seed(46)
truth = Truth(unknown="items losses")  # Only ``backward`` tells of them.
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
parameters = {name: p.detach() for name, p in model.named_parameters()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def compute(parameters, x):
    return functional_call(model, parameters, (x,)).pow(2).mean()


for _ in range(20):
    x = torch.randn(6, 1, 4)
    slopes, losses = vmap(grad_and_value(compute), in_dims=(None, 0))(dict(parameters), x)
    for name, parameter in model.named_parameters():
        parameter.grad = slopes[name].mean(0)
    optimizer.step()
    truth.step(6, losses.mean())
truth.tell()
