"""A training by ``torch.func``: parameters are a dictionary, and gradients are asked for."""

import torch
from torch.func import functional_call, grad
from training import Truth, batches

truth = Truth(5, unknown="steps losses")  # Nothing shows a step.
model = torch.nn.Linear(4, 1)
weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
loader = batches(50, 8, 1)


def loss_of(weights, inp, target):
    return (functional_call(model, weights, (inp,)) - target).pow(2).mean()


for _ in range(3):
    for inp, target in loader:
        slopes = grad(loss_of)(weights, inp, target)
        weights = {name: value - 0.05 * slopes[name] for name, value in weights.items()}
        truth.step(len(inp), loss_of(weights, inp, target))
truth.tell()
