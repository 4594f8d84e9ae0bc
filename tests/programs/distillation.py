"""A student learns from a teacher on the batches of a loader; both are tested at the end."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(37)
truth = Truth()
T, weight = 2.0, 0.25
loader = DataLoader(TensorDataset(torch.randn(52, 4), torch.randint(3, (52,))), batch_size=8)
teacher = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
student = nn.Linear(4, 3)


def test(model):
    model.eval()
    with torch.no_grad():
        for x, _ in loader:
            model(x)
            truth.evaluated(len(x))


optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-3)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(teacher(x), y)
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
test(teacher)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
teacher.eval()
student.train()
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=-1)
        out = student(x)
        distance = F.kl_div(F.log_softmax(out / T, dim=-1), soft, reduction="batchmean") * T**2
        loss = weight * distance + (1 - weight) * F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
test(student)
truth.tell()
