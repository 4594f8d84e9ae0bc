"""A validation that forgets both eval() and no_grad(): nothing comes of its gradients."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(25)
truth = Truth()
train_loader = DataLoader(TensorDataset(torch.randn(42, 4)), batch_size=8, shuffle=True)
valid_loader = DataLoader(TensorDataset(torch.randn(21, 4)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    for (x,) in train_loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
    total = 0.0
    for (x,) in valid_loader:
        total += model(x).pow(2).mean().item()
        truth.evaluated(len(x))
truth.tell()
