"""Layers learn one after the other, a few steps each, by optimizers that were made at first."""

import torch
from torch import nn
from training import Truth

truth = Truth(65)
x = torch.randn(20, 6)
layers = [nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)]
optimizers = [torch.optim.Adam(layer.parameters(), lr=0.01) for layer in layers]
for layer, optimizer in zip(layers, optimizers, strict=True):
    for _ in range(5):
        loss = layer(x).pow(2).mean()
        truth.step(len(x), loss, optimizer)
    x = torch.relu(layer(x)).detach()
truth.tell()
