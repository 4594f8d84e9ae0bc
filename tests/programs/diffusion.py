"""Noise is learned to be told; behind each epoch pictures are drawn from it, step by step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time, self.net = nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, x, t):
        return self.net(x + self.time(t))


torch.manual_seed(53)
truth = Truth()
dataloader = DataLoader(TensorDataset(torch.randn(50, 8)), batch_size=10, shuffle=True)
model = Denoiser()
optimizer, mse = torch.optim.AdamW(model.parameters(), lr=3e-4), nn.MSELoss()
for _ in range(4):
    for (images,) in dataloader:
        t = torch.randint(10, (len(images),))
        noise = torch.randn_like(images)
        predicted = model(images + noise * (t[:, None] / 10), t)
        loss = mse(noise, predicted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(images), loss)
    model.eval()
    with torch.no_grad():
        x = torch.randn(4, 8)
        for i in reversed(range(1, 10)):
            x = x - 0.1 * model(x, torch.full((4,), i))
            truth.evaluated(4)
    model.train()
truth.tell()
