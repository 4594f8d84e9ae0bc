"""A GAN whose generator learns twice from noise of its own, each time that its rival learns."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(31)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(44, 4)), batch_size=8, shuffle=True)
generator, discriminator = nn.Linear(2, 4), nn.Linear(4, 1)
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=1e-3)
optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
for _ in range(3):
    for (real,) in loader:
        made = generator(torch.randn(8, 2)).detach()
        optimizer_D.zero_grad()
        d_loss = discriminator(made).mean() - discriminator(real).mean()
        d_loss.backward()
        optimizer_D.step()
        for _ in range(2):
            optimizer_G.zero_grad()
            g_loss = -discriminator(generator(torch.randn(8, 2))).mean()
            g_loss.backward()
            optimizer_G.step()
        truth.step(len(real), d_loss)
truth.tell()
