"""A training by ``torch.func``: parameters are a dictionary, and gradients are asked for."""

import torch
from torch.func import functional_call, grad
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(5)
truth = Truth(unknown="steps losses")  # Nothing shows a step.
model = torch.nn.Linear(4, 1)
weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
loader = DataLoader(TensorDataset(torch.randn(50, 4), torch.randn(50, 1)), batch_size=8)


def loss_of(weights, inp, target):
    return (functional_call(model, weights, (inp,)) - target).pow(2).mean()


for _ in range(3):
    for inp, target in loader:
        slopes = grad(loss_of)(weights, inp, target)
        weights = {name: value - 0.05 * slopes[name] for name, value in weights.items()}
        truth.step(len(inp), loss_of(weights, inp, target))
truth.tell()
