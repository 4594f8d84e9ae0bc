"""Epochs of many short steps over a loader, an evaluation over another after each."""

import torch
from telling import Truth
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(27)
truth = Truth()
data = TensorDataset(torch.randn(397, 4), torch.randn(397, 1))
loader, held_out = DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=50)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        truth.step(len(x), loss)
        if i == 60 and epoch == 1:
            loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            truth.step(len(x), loss)
    model.eval()
    with torch.no_grad():
        for x, _ in held_out:
            model(x)
            truth.other("eval", len(x))
    model.train()
truth.tell()
