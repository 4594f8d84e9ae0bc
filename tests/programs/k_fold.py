"""Cross-validation: for each fold a new model, a new optimizer, and two new loaders."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset
from truth import Truth

torch.manual_seed(27)
truth = Truth()
dataset = TensorDataset(torch.randn(45, 4), torch.randn(45, 1))
k = 3
for fold in range(k):
    held = list(range(fold, 45, k))
    rest = [i for i in range(45) if i % k != fold]
    train_loader = DataLoader(Subset(dataset, rest), batch_size=8, shuffle=True)
    val_loader = DataLoader(Subset(dataset, held), batch_size=8)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            truth.step(len(x), loss)
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            nn.functional.mse_loss(model(x), y)
            truth.evaluated(len(x))
truth.tell()
