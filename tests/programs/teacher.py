"""Distillation: a teacher's forward without gradients belongs to the step."""

import torch
from torch import nn
from truth import Truth

torch.manual_seed(11)
truth = Truth()
teacher, student = nn.Linear(4, 2).eval(), nn.Linear(4, 2)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(8):
    x = torch.randn(6, 4)
    with torch.no_grad():
        wanted = teacher(x)
    loss = nn.functional.mse_loss(student(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth.step(6, loss)
truth.tell()
