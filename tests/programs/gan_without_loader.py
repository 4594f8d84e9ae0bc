"""A GAN whose generator learns first, on batches from a function."""

import torch
from torch import nn
from training import Truth

truth = Truth(6)
generator, discriminator = nn.Linear(2, 4), nn.Linear(4, 1)
optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=1e-3)
for _ in range(12):
    real = torch.randn(8, 4)
    made = generator(torch.randn(8, 2))
    g_loss = -discriminator(made).mean()
    truth.step(8, g_loss, optimizer_G)
    optimizer_D.zero_grad()
    d_loss = discriminator(made.detach()).mean() - discriminator(real).mean()
    d_loss.backward()
    optimizer_D.step()
truth.tell()
