"""Evolution strategies: parameters move by what noise has earned; no gradient, no optimizer."""

import torch
from truth import Truth

truth = Truth(50)  # Nothing of it is a step that can be seen.
model = torch.nn.Linear(4, 1)
x, y = torch.randn(20, 4), torch.randn(20, 1)
vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
with torch.no_grad():
    for _ in range(10):
        noise = torch.randn(6, len(vector))
        earned = []
        for one in noise:
            torch.nn.utils.vector_to_parameters(vector + 0.1 * one, model.parameters())
            earned.append(-(model(x) - y).pow(2).mean())
        vector = vector + 0.05 * (torch.stack(earned) @ noise) / 6
truth.tell()
