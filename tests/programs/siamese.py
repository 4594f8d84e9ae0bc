"""Pairs go through one model, one by one; a test shows it single pictures."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(74)
pairs = TensorDataset(torch.randn(45, 4), torch.randn(45, 4), torch.randint(2, (45,)).float())
loader, held = DataLoader(pairs, batch_size=8), DataLoader(pairs, batch_size=1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for _ in range(3):
    for one, two, same in loader:
        distance = nn.functional.pairwise_distance(model(one), model(two))
        loss = (same * distance.pow(2) + (1 - same) * (1 - distance).clamp(min=0).pow(2)).mean()
        truth.step(len(one), loss, optimizer)
model.eval()
with torch.no_grad():
    for number, (one, two, _) in enumerate(held):
        if number == 10:
            break
        model(one)
        model(two)
        truth.evaluated(1)
truth.tell()
