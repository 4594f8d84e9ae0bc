"""No optimizer and no ``backward``: parameters are moved along gradients that were asked for."""

import torch
from truth import Truth

truth = Truth(33, unknown="steps losses")  # Nothing shows a step.
model = torch.nn.Linear(4, 1)
for _ in range(50):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= 0.01 * gradient
    truth.step(8, loss)
truth.tell()
