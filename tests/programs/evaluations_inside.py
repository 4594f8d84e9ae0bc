"""An evaluation over a loader of its own every ten steps, in the middle of an epoch; one before."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(23)
truth = Truth()
train_loader = DataLoader(TensorDataset(torch.randn(98, 4)), batch_size=4, shuffle=True)
val_loader = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def evaluate():
    model.eval()
    with torch.no_grad():
        for (x,) in val_loader:
            model(x)
            truth.evaluated(len(x))
    model.train()


evaluate()  # Before anything has been learned.
step = 0
for _ in range(2):
    for (x,) in train_loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
        step += 1
        if step % 10 == 0:
            evaluate()
truth.tell()
