"""An optimizer step every second batch, in one loop; 12 batches of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 2


def train(model, loader, optimizer):
    model.train()
    for idx, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y)
        (loss / ACCUMULATE).backward()
        if (idx + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()


model = torch.nn.Linear(8, 1)
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96, 1)), batch_size=8)
train(model, loader, torch.optim.SGD(model.parameters(), lr=0.01))
