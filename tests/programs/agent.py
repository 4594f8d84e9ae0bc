"""Reinforcement learning: an agent acts without gradients, then learns from what it remembers."""

import torch
from truth import Truth

torch.manual_seed(20)
truth = Truth(unknown="evaluations")  # Of the first passes, nothing says what they are.
policy, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
memory, state = [], torch.randn(1, 4)
for _ in range(20):
    with torch.no_grad():
        action = policy(state).max(1).indices
    memory.append((state, action))
    state = torch.randn(1, 4)
    if len(memory) < 6:
        continue
    states = torch.cat([s for s, _ in memory[-6:]])
    values = policy(states).max(1).values
    with torch.no_grad():
        wanted = target(states).max(1).values
    loss = torch.nn.functional.smooth_l1_loss(values, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth.step(6, loss)
truth.evaluations = {"inference": [6, 6]}
truth.tell()
