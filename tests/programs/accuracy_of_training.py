"""Accuracy over the training's own loader, then over the other, behind each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(24)
truth = Truth()
train_loader = DataLoader(TensorDataset(torch.randn(38, 4), torch.randint(3, (38,))), batch_size=8)
test_loader = DataLoader(TensorDataset(torch.randn(12, 4), torch.randint(3, (12,))), batch_size=8)
model = nn.Linear(4, 3)
criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters())


def check_accuracy(loader):
    model.eval()
    right = n = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            n += len(x)
            truth.evaluated(len(x))
    model.train()
    return right / n


for _ in range(3):
    for x, y in train_loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
    check_accuracy(train_loader)
    check_accuracy(test_loader)
truth.tell()
