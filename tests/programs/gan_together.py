"""A GAN whose optimizers step together, behind both backwards."""

import torch
from torch import nn
from truth import Truth

truth = Truth(45)
generator, discriminator = nn.Linear(2, 4), nn.Linear(4, 1)
optimizer_D = torch.optim.Adam(discriminator.parameters())
optimizer_G = torch.optim.Adam(generator.parameters())
for _ in range(20):
    real, fake = torch.randn(8, 4), generator(torch.randn(8, 2))
    optimizer_D.zero_grad()
    d_loss = discriminator(fake.detach()).mean() - discriminator(real).mean()
    d_loss.backward()
    optimizer_G.zero_grad()
    g_loss = -discriminator(fake).mean()
    g_loss.backward()
    optimizer_D.step()
    optimizer_G.step()
    truth.step(8, d_loss)
truth.tell()
