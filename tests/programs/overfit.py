"""One batch of a loader is learned from again and again."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(56)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(34, 4), torch.randn(34, 1)), batch_size=8)
x, y = next(iter(loader))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth.step(len(x), loss)
truth.tell()
