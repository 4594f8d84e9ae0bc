"""Gradients of pure functions of the parameters, by torch.func, in all of the training."""

import torch
from torch.func import functional_call, grad, grad_and_value
from truth import Truth

truth = Truth(46, unknown="steps losses")  # Nothing shows a step.
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
truth.tell()
