"""Deep Q-learning: single states without gradients, then a batch from a replay buffer."""

import random
from collections import deque, namedtuple

import torch
from torch import nn, optim
from training import Truth

Transition = namedtuple("Transition", "state action next_state reward")
BATCH_SIZE, TAU = 16, 0.005


def select_action(state):
    if random.random() > 0.3:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]])


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return
    batch = Transition(*zip(*random.sample(memory, BATCH_SIZE), strict=True))
    state, action = torch.cat(batch.state), torch.cat(batch.action)
    values = policy_net(state).gather(1, action)
    with torch.no_grad():
        following = target_net(torch.cat(batch.next_state)).max(1).values
    wanted = following * 0.99 + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(values, wanted.unsqueeze(1))
    truth.step(BATCH_SIZE, loss, optimizer)


random.seed(8)
truth = Truth(8)
policy_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-4, amsgrad=True)
memory = deque(maxlen=1000)
for _ in range(5):
    state = torch.randn(1, 4)
    for _ in range(9):
        action, following = select_action(state), torch.randn(1, 4)
        memory.append(Transition(state, action, following, torch.rand(1)))
        state = following
        optimize_model()
        net, target = policy_net.state_dict(), target_net.state_dict()
        for key in net:
            target[key] = net[key] * TAU + target[key] * (1 - TAU)
        target_net.load_state_dict(target)
truth.tell()
