"""Layers learn from local losses, one after the other, on each batch; an optimizer each."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(64)
loader = DataLoader(TensorDataset(torch.randn(52, 6), torch.randint(3, (52,))), batch_size=8)
layers = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)]
heads = [nn.Linear(6, 3) for _ in layers]
optimizers = [
    torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for layer, head in zip(layers, heads, strict=True)
]
for _ in range(3):
    for x, y in loader:
        n, losses = len(x), []
        for layer, head, optimizer in zip(layers, heads, optimizers, strict=True):
            x = layer(x.detach())
            loss = nn.functional.cross_entropy(head(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        truth.step(n, losses[0])
truth.tell()
