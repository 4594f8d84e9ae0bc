"""Adversarial training: a few backwards look for the worst input, the last one is learned from."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(72)
truth = Truth(unknown="losses")  # Which of the backwards counts is not seen.
loader = DataLoader(TensorDataset(torch.randn(44, 4), torch.randint(3, (44,))), batch_size=8)
model = torch.nn.Linear(4, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for x, y in loader:
        delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_(True)
        for _ in range(4):
            F.cross_entropy(model(x + delta), y).backward()
            delta.data = (delta + 0.02 * delta.grad.sign()).clamp(-0.1, 0.1)
            delta.grad.zero_()
        loss = F.cross_entropy(model(x + delta.detach()), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        truth.step(len(x), loss)
truth.tell()
