"""Soft actor-critic: every third turn the actor catches up, on the batch of that turn."""

import torch
from torch import nn
from training import Truth

EVERY = 3
truth = Truth(32)
actor, critic = nn.Linear(4, 1), nn.Linear(5, 1)
log_alpha = torch.zeros(1, requires_grad=True)
q_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-2)
memory = torch.randn(100, 4)
for turn in range(20):
    states = memory[torch.randint(100, (8,))]
    with torch.no_grad():
        actions = actor(states)
    q_loss = (critic(torch.cat([states, actions], 1)) - states.sum(1, keepdim=True)).pow(2).mean()
    truth.step(8, q_loss, q_optimizer)
    if turn % EVERY:
        continue
    for _ in range(EVERY):
        wanted = actor(states)
        loss = -critic(torch.cat([states, wanted], 1)).mean()
        actor_optimizer.zero_grad()
        loss.backward()
        actor_optimizer.step()
        with torch.no_grad():
            wanted = actor(states)
        loss = -(log_alpha.exp() * (wanted - 1)).mean()
        alpha_optimizer.zero_grad()
        loss.backward()
        alpha_optimizer.step()
truth.tell()
