"""REINFORCE: an episode of single states, then one step from all that was chosen in it."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.distributions import Categorical
from training import Truth


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.affine2 = nn.Linear(4, 16), nn.Linear(16, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=1)


def select_action(state):
    choice = Categorical(policy(state.unsqueeze(0)))
    action = choice.sample()
    policy.saved_log_probs.append(choice.log_prob(action))
    return action.item()


def finish_episode():
    total, returns = 0.0, []
    for reward in policy.rewards[::-1]:
        total = reward + 0.99 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    parts = [-p * r for p, r in zip(policy.saved_log_probs, returns, strict=True)]
    loss = torch.cat(parts).sum()
    truth.step(len(policy.rewards), loss, optimizer)
    policy.rewards, policy.saved_log_probs = [], []


truth = Truth(7, unknown="items")  # Each state was a batch of one.
policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(12):
    state = torch.randn(4)
    for _ in range(5 + episode % 4):
        policy.rewards.append(1.0 if select_action(state) else 0.5)
        state = torch.randn(4)
    finish_episode()
truth.tell()
