"""Weights are averaged; batch norms are made anew over the training's loader, then a test."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from training import Truth, batches

truth = Truth(36)
loader = batches(40, 8, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
swa_model = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = SWALR(optimizer, swa_lr=0.05)
for epoch in range(4):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        truth.step(len(x), loss, optimizer)
    if epoch > 1:
        swa_model.update_parameters(model)
        schedule.step()
update_bn(loader, swa_model)
for x, _ in loader:
    truth.evaluated(len(x))
truth.evaluate(swa_model, loader)
truth.tell()
