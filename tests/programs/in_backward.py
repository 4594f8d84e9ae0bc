"""Optimizers that step within backward, one for each parameter."""

import torch
from truth import Truth

truth = Truth(25)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def hook(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(hook)
for _ in range(6):
    x = torch.randn(5, 4)
    loss = model(x).pow(2).mean()
    loss.backward()
    truth.step(5, loss)
truth.tell()
