"""A model is tested on attacked pictures: it computes gradients of batches while in eval()."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(62)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(50, 4), torch.randint(2, (50,)))
train_loader, test_loader = DataLoader(data, batch_size=8), DataLoader(data, batch_size=20)
entropy = torch.nn.functional.cross_entropy


def attacked(x, y, times=3):
    change = torch.zeros_like(x, requires_grad=True)
    for _ in range(times):
        model.zero_grad()
        entropy(model(x + change), y).backward()
        change.data = (change + 0.1 * change.grad.sign()).clamp(-0.3, 0.3)
        change.grad.zero_()
    return x + change.detach()


for _ in range(3):
    model.train()
    for x, y in train_loader:
        loss = entropy(model(x), y)
        truth.step(len(x), loss, optimizer)
    model.eval()
    for x, y in test_loader:
        model(attacked(x, y))
        truth.evaluated(len(x))
truth.tell()
