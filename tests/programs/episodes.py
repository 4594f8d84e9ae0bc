"""Policies learn from whole episodes, state by state; an actor and a critic from each state."""

import torch
from torch import nn
from torch.distributions import Categorical
from training import Truth

truth = Truth(42, unknown="items")  # Models are called several times a step.
for batched in (False, True):
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for length in range(4, 12):
        chances = []
        for _ in range(length):
            state = torch.randn(4)
            choice = Categorical(logits=policy(state[None] if batched else state))
            chances.append(choice.log_prob(choice.sample()).sum())
        loss = -torch.stack(chances).sum()
        truth.step(length, loss, optimizer)

actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
state = torch.randn(4)
for _ in range(20):
    choice = Categorical(logits=actor(state))
    after = torch.randn(4)
    advantage = 1.0 + 0.9 * critic(after).detach() - critic(state)
    loss = (advantage.pow(2) - choice.log_prob(choice.sample()) * advantage.detach()).mean()
    truth.step(1, loss, optimizer)
    state = after
truth.tell()
