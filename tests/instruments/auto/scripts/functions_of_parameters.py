"""Gradients of pure functions of the parameters, by torch.func: of a batch, of each sample."""

import torch
from telling import Truth
from torch.func import functional_call, grad, grad_and_value, vmap

torch.manual_seed(46)
truth = Truth()
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def compute(parameters, x):
    return functional_call(model, parameters, (x,)).pow(2).mean()


def adapted(parameters, x):
    slopes = grad(compute)(parameters, x)
    return compute({name: parameters[name] - 0.1 * slopes[name] for name in parameters}, x)


parameters = {name: p.detach() for name, p in model.named_parameters()}
for function in (compute, adapted):
    for size in (8, 8, 8, 9):
        x = torch.randn(size, 4)
        slopes, loss = grad_and_value(function)(parameters, x)
        parameters = {name: parameters[name] - 0.01 * slopes[name] for name in parameters}
        truth.step(size, loss)
        grad(compute, argnums=1)(parameters, x)  # Of no parameter.

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    x = torch.randn(6, 1, 4)
    slopes, losses = vmap(grad_and_value(compute), in_dims=(None, 0))(dict(parameters), x)
    for name, parameter in model.named_parameters():
        parameter.grad = slopes[name].mean(0)
    optimizer.step()
    truth.step(6, losses.mean())
truth.losses = truth.losses[:8]  # That of a single sample is not read.
truth.tell()
