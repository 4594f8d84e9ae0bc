"""Large batches of a loader are learned from in pieces, a step for each piece."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(67)
truth = Truth(unknown="items")  # What a step took of a batch is not seen.
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    for (large,) in DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=32):
        for x in large.split(8):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            truth.step(len(x), loss)
truth.tell()
