"""Batches are slices of tensors, in a new order each epoch; one test at the end."""

import torch
import torch.nn.functional as F
from truth import Truth

torch.manual_seed(71)
truth = Truth()
x, y = torch.randn(102, 5), torch.randint(4, (102,))
net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    order = torch.randperm(len(x))
    for i in range(0, len(x), 10):
        xb, yb = x[order[i : i + 10]], y[order[i : i + 10]]
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        truth.step(len(xb), loss)
net.eval()
with torch.no_grad():
    net(x)
    truth.evaluated(len(x))
truth.tell()
