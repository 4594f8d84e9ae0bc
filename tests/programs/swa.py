"""Weights are averaged; batch norms are made anew over the training's loader, then a test."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(36)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
swa_model = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = SWALR(optimizer, swa_lr=0.05)
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
    if epoch > 1:
        swa_model.update_parameters(model)
        schedule.step()
update_bn(loader, swa_model)
for x, _ in loader:
    truth.evaluated(len(x))
swa_model.eval()
with torch.no_grad():
    for x, _ in loader:
        swa_model(x)
        truth.evaluated(len(x))
truth.tell()
