"""The next batch is fetched before the work on one begins, as Accelerate does it."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(29)
truth = Truth()
data = TensorDataset(torch.randn(42, 4), torch.randn(42, 1))
loader = DataLoader(data, batch_size=4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def ahead(loader):
    batches = iter(loader)
    current = next(batches)
    for following in batches:
        yield current
        current = following
    yield current


for _ in range(8):
    for x, y in ahead(loader):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        truth.step(len(x), loss)
truth.tell()
