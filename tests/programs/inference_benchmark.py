"""A benchmark of inference: the same input again and again, no loader, nothing learned."""

import torch
from truth import Truth

truth = Truth(29)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
x = torch.randn(16, 8)
with torch.no_grad():
    for _ in range(3 + 20):
        model(x)
        truth.other("inference", 16)
truth.tell()
