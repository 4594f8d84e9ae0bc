"""Gradients are asked for by name and given to an optimizer, which then steps; no ``backward``."""

import torch
from truth import Truth

truth = Truth(32, unknown="items losses")  # Only ``backward`` tells of them.
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.01)
for _ in range(50):
    x = torch.randn(8, 4, requires_grad=True)
    loss = model(x).pow(2).mean()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    loss = loss + slope.pow(2).mean()
    gradients = torch.autograd.grad(loss, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    truth.step(8, loss)
truth.tell()
