"""Nothing is trained, and nobody said so: the same batch again and again."""

import torch
from truth import Truth

truth = Truth(13, unknown="evaluations")  # It might have learned.
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
x = torch.randn(9, 4)
for _ in range(10):
    model(x)
    truth.other("inference", 9)
truth.tell()
