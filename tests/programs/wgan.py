"""A Wasserstein GAN: the generator learns on one batch of three, the critic on each."""

import torch
from torch import nn
from training import Truth, batches

truth = Truth(5)
n_critic, clip_value = 3, 0.01
generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
optimizer_D = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
dataloader = batches(52, 8)
for _ in range(3):
    for i, (real,) in enumerate(dataloader):
        fake = generator(torch.randn(len(real), 2)).detach()
        loss_D = -critic(real).mean() + critic(fake).mean()
        truth.step(len(real), loss_D, optimizer_D)
        for p in critic.parameters():
            p.data.clamp_(-clip_value, clip_value)
        if i % n_critic == 0:
            optimizer_G.zero_grad()
            loss_G = -critic(generator(torch.randn(len(real), 2))).mean()
            loss_G.backward()
            optimizer_G.step()
truth.tell()
