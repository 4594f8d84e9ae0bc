"""Large batches of a loader are worked on in pieces, of which the gradients are added up."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(68)
truth = Truth()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    for (large,) in DataLoader(TensorDataset(torch.randn(90, 4)), batch_size=32):
        pieces, total = large.chunk(4), 0.0
        for x in pieces:
            loss = model(x).pow(2).mean() / len(pieces)
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        truth.step(len(large), total)
truth.tell()
