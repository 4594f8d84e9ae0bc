"""A step in a function of its own, within another; 12 steps of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def run(epochs=2):
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = torch.nn.CrossEntropyLoss()

    def train_step(x, y):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
    loader = DataLoader(data, batch_size=8)
    for _ in range(epochs):
        for xb, yb in loader:
            train_step(xb, yb)


run()
