"""Features of a data set are computed in several rounds; nobody said that nothing is learned."""

import torch
from training import Truth, batches

truth = Truth(77)
model = torch.nn.Linear(4, 2)
loader = batches(50, 8)
for _ in range(3):
    for (x,) in loader:
        model(x + 0.1 * torch.randn_like(x)).tolist()
        truth.other("inference", len(x))
truth.tell()
