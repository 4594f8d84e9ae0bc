"""A GAN after the DCGAN tutorial: two optimizers, the discriminator learns twice a step."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(5)
loader = DataLoader(TensorDataset(torch.randn(44, 4)), batch_size=8, shuffle=True)
netG = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
netD = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=2e-4)
optimizerG = optim.Adam(netG.parameters(), lr=2e-4)
for _ in range(3):
    for (real,) in loader:
        netD.zero_grad()
        label = torch.ones(len(real), 1)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(len(real), 2))
        errD_fake = criterion(netD(fake.detach()), label * 0)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        truth.step(len(real), errD_real.detach() + errD_fake.detach())
truth.tell()
