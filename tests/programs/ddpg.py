"""Deterministic policy gradients: the actor acts in eval() mode; critic, then actor, each move."""

import copy

import torch
from torch import nn
from training import Truth

truth = Truth(12)
actor, critic = nn.Linear(4, 1), nn.Linear(5, 1)
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-4)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
memory = torch.randn(200, 4)
for _ in range(15):
    actor.eval()
    with torch.no_grad():
        actor(torch.randn(1, 4))
    actor.train()
    state, following = memory[torch.randint(200, (20,))], memory[torch.randint(200, (20,))]
    with torch.no_grad():
        action = actor_target(following)
        wanted = 0.9 * critic_target(torch.cat([following, action], 1))
    done = torch.randn(20, 1)
    critic_loss = (critic(torch.cat([state, done], 1)) - wanted).pow(2).mean()
    truth.step(20, critic_loss, critic_optimizer)
    actor_loss = -critic(torch.cat([state, actor(state)], 1)).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
truth.tell()
