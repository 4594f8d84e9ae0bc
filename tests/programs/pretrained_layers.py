"""Autoencoders layer by layer over a loader, each with an optimizer; then all of it at once."""

from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(16)
loader = DataLoader(TensorDataset(torch.randn(44, 8), torch.randint(3, (44,))), batch_size=10)
sizes = (8, 6, 4)
encoders = [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(sizes)]
for depth, encoder in enumerate(encoders):
    decoder = nn.Linear(sizes[depth + 1], sizes[depth])
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for _ in range(2):
        for x, _ in loader:
            with torch.no_grad():
                for done in encoders[:depth]:
                    x = done(x)
            loss = nn.functional.mse_loss(decoder(encoder(x)), x)
            truth.step(len(x), loss, optimizer)
model = nn.Sequential(*encoders, nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        truth.step(len(x), loss, optimizer)
truth.tell()
