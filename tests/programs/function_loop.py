"""A loop in a function, over a DataLoader whose last batch is smaller."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


def train(model, loader, optimizer, truth):
    for inp, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inp), target)
        loss.backward()
        optimizer.step()
        truth.step(len(inp), loss)


def main():
    torch.manual_seed(1)
    truth = Truth()
    data = TensorDataset(torch.randn(50, 8), torch.randint(3, (50,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train(model, loader, optimizer, truth)
    truth.tell()


if __name__ == "__main__":
    main()
