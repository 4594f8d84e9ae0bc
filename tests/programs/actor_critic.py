"""Advantage actor-critic: states one by one with gradients, a step at the end of each episode."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical
from truth import Truth


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine, self.action, self.value = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.action(x), dim=-1), self.value(x)


torch.manual_seed(11)
truth = Truth(unknown="items")  # One state is one vector, and the model is called many times.
model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
for episode in range(10):
    saved = []
    for _ in range(6 + episode % 3):
        chances, value = model(torch.randn(4))
        choice = Categorical(chances)
        saved.append((choice.log_prob(choice.sample()), value))
    policy_losses = [-log_prob * (1 - value.item()) for log_prob, value in saved]
    value_losses = [F.smooth_l1_loss(value, torch.ones(1)) for _, value in saved]
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    truth.step(len(saved), loss)
truth.tell()
