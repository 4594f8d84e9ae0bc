"""Features of a data set are computed in several rounds; nobody said that nothing is learned."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(77)
truth = Truth()
model = torch.nn.Linear(4, 2)
loader = DataLoader(TensorDataset(torch.randn(50, 4)), batch_size=8)
for _ in range(3):
    for (x,) in loader:
        model(x + 0.1 * torch.randn_like(x)).tolist()
        truth.other("inference", len(x))
truth.tell()
