"""A student learns from a teacher on the batches of a loader; both are tested at the end."""

import torch
import torch.nn.functional as F
from torch import nn
from training import Truth, batches

truth = Truth(37)
T, weight = 2.0, 0.25
loader = batches(52, 8, classes=3)
teacher = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
student = nn.Linear(4, 3)


optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-3)
for _ in range(2):
    for x, y in loader:
        loss = F.cross_entropy(teacher(x), y)
        truth.step(len(x), loss, optimizer)
truth.evaluate(teacher, loader)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
teacher.eval()
for _ in range(2):
    for x, y in loader:
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=-1)
        out = student(x)
        distance = F.kl_div(F.log_softmax(out / T, dim=-1), soft, reduction="batchmean") * T**2
        loss = weight * distance + (1 - weight) * F.cross_entropy(out, y)
        truth.step(len(x), loss, optimizer)
truth.evaluate(student, loader)
truth.tell()
