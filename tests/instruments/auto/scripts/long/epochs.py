"""Steps of two milliseconds, epochs with a smaller last batch, an evaluation now and then."""

import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, optimizer, loader, losses):
    for inp, target in loader:
        time.sleep(0.002)
        loss = nn.functional.cross_entropy(model(inp), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        for inp, _ in loader:
            model(inp)
    model.train()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    data = TensorDataset(torch.randn(203, 8), torch.randint(3, (203,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    held_out = DataLoader(data, batch_size=29)
    losses = []
    for epoch in range(16):
        train(model, optimizer, loader, losses)
        if epoch % 5 == 4:
            evaluate(model, held_out)
    truth = {"steps": len(losses), "items": 16 * 203, "passes": 21, "first": losses[0]}
    print(json.dumps({**truth, "last": losses[-1], "min": min(losses)}))


main()
