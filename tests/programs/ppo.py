"""Proximal policy optimisation: a rollout without gradients, then epochs of minibatches of it."""

import torch
from torch import nn
from torch.distributions import Categorical
from training import Truth


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        chances = Categorical(logits=self.actor(x))
        action = chances.sample() if action is None else action
        return action, chances.log_prob(action), chances.entropy(), self.critic(x)


truth = Truth(10)
num_envs, num_steps, minibatch_size = 4, 16, 16
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
following = torch.randn(num_envs, 4)
for _ in range(3):
    obs, actions, logprobs, rewards, values = [], [], [], [], []
    for _ in range(num_steps):
        obs.append(following)
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(following)
        actions.append(action)
        logprobs.append(logprob)
        values.append(value.flatten())
        rewards.append(torch.rand(num_envs))
        following = torch.randn(num_envs, 4)
    with torch.no_grad():
        bootstrap = agent.get_value(following).flatten()
    returns = torch.stack(rewards).cumsum(0) + bootstrap
    advantages = (returns - torch.stack(values)).reshape(-1)
    b_obs, b_actions = torch.cat(obs), torch.cat(actions)
    b_logprobs, b_returns = torch.cat(logprobs), returns.reshape(-1)
    for _ in range(2):
        order = torch.randperm(num_envs * num_steps)
        for start in range(0, num_envs * num_steps, minibatch_size):
            chosen = order[start : start + minibatch_size]
            _, logprob, entropy, value = agent.get_action_and_value(
                b_obs[chosen], b_actions[chosen]
            )
            ratio = (logprob - b_logprobs[chosen]).exp()
            pg_loss = -(advantages[chosen] * ratio.clamp(0.8, 1.2)).mean()
            v_loss = 0.5 * (value.flatten() - b_returns[chosen]).pow(2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            truth.step(len(chosen), loss, optimizer)
truth.tell()
