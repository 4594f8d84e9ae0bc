"""Epochs that are broken off by a count, and a sanity check that is: loaders begin anew."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(59)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(83, 4)), batch_size=8, shuffle=True)
val_loader = DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.no_grad()
def validate(limit):
    model.eval()
    for i, (x,) in enumerate(val_loader):
        if i >= limit:
            break
        model(x)
        truth.evaluated(len(x))
    model.train()


validate(2)
for _ in range(4):
    for i, (x,) in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
        if i == 6:
            break
    validate(3)
truth.tell()
