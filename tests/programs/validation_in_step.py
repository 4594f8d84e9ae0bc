"""Every step looks at one batch of the validation as well, taken by next() without an end."""

import itertools

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(61)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(48, 4)), batch_size=8)
val_loader = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=10)
val_batches = itertools.cycle(val_loader)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    for (x,) in loader:
        model.train()
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
        model.eval()
        with torch.no_grad():
            model(next(val_batches)[0])
            truth.evaluated(10)
truth.tell()
