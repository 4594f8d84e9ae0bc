"""Q-learning whose agent acts in eval() mode, and trains every fourth move; no warm-up."""

import random

import torch
from torch import nn
from training import Truth

random.seed(9)
truth = Truth(9)
qnet, target = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.Adam(qnet.parameters(), lr=1e-3)
memory, state = [], torch.randn(4)
for move in range(1, 101):
    qnet.eval()
    with torch.no_grad():
        action = qnet(state.unsqueeze(0)).argmax().item()
    qnet.train()
    following = torch.randn(4)
    memory.append((state, action, random.random(), following))
    state = following
    if move % 4 == 0 and len(memory) > 12:
        chosen = random.sample(memory, 12)
        states = torch.stack([one[0] for one in chosen])
        nexts = torch.stack([one[3] for one in chosen])
        actions = torch.tensor([[one[1]] for one in chosen])
        wanted = target(nexts).detach().max(1)[0].unsqueeze(1)
        loss = nn.functional.mse_loss(qnet(states).gather(1, actions), wanted)
        truth.step(12, loss, optimizer)
truth.tell()
