"""A batch is looked at first: its shape, the graph of the model, an overfit on it alone."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(55)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(34, 4), torch.randn(34, 1)), batch_size=8)
model = torch.nn.Linear(4, 1)
x, y = next(iter(loader))
print(x.shape, y.shape)
model(x)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
truth.tell()
