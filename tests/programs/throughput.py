"""A benchmark: the same made-up batch, some iterations to warm up, others with a clock."""

import time

import torch
from torch import nn
from truth import Truth

torch.manual_seed(28)
truth = Truth()
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
model.append(nn.Linear(8, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.randn(16, 3, 12, 12), torch.randint(10, (16,))


def benchmark_step():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    truth.step(len(data), loss)


for _ in range(3):
    benchmark_step()
rates = []
for _ in range(4):
    since = time.perf_counter()
    for _ in range(5):
        benchmark_step()
    rates.append(16 * 5 / (time.perf_counter() - since))
truth.tell()
