"""A ``while`` loop that asks an iterator, begun anew when it ends; 12 steps of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, max_steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    iterator = iter(loader)
    global_step = 0
    while global_step < max_steps:
        try:
            batch = next(iterator)
        except StopIteration:
            iterator = iter(loader)
            batch = next(iterator)
        x, y = batch
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        global_step += 1


data = TensorDataset(torch.randn(40, 8), torch.randint(0, 4, (40,)))
train(torch.nn.Linear(8, 4), DataLoader(data, batch_size=8), 12)
