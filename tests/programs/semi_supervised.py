"""A batch with labels and a larger one without, each from a loader that begins anew at its end."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(45)
labeled = DataLoader(TensorDataset(torch.randn(16, 4), torch.randint(3, (16,))), batch_size=4)
unlabeled = DataLoader(TensorDataset(torch.randn(60, 4)), batch_size=12)
test_loader = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=10)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
labeled_iter, unlabeled_iter = iter(labeled), iter(unlabeled)
for _ in range(2):
    model.train()
    for _ in range(12):
        try:
            x, y = next(labeled_iter)
        except StopIteration:
            labeled_iter = iter(labeled)
            x, y = next(labeled_iter)
        try:
            (u,) = next(unlabeled_iter)
        except StopIteration:
            unlabeled_iter = iter(unlabeled)
            (u,) = next(unlabeled_iter)
        out = model(torch.cat((x, u)))
        sure = F.softmax(out[len(x) :].detach(), -1).argmax(-1)
        loss = F.cross_entropy(out[: len(x)], y) + F.cross_entropy(out[len(x) :], sure)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(u), loss)  # The largest of them counts.
    model.eval()
    with torch.no_grad():
        for (x,) in test_loader:
            model(x)
            truth.evaluated(len(x))
truth.tell()
