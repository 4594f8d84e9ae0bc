"""A GAN that shows what it makes of fixed noise every so many batches, in training mode."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(3)
noise_size, real_label, fake_label = 4, 1.0, 0.0
images = TensorDataset(torch.randn(60, 1, 4, 4), torch.zeros(60))
dataloader = DataLoader(images, batch_size=8, shuffle=True)
netG = nn.Sequential(nn.ConvTranspose2d(noise_size, 1, 4), nn.Tanh())
netD = nn.Sequential(nn.Conv2d(1, 4, 4), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 1), nn.Sigmoid())
criterion = nn.BCELoss()
fixed_noise = torch.randn(8, noise_size, 1, 1)
optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
for _ in range(3):
    for i, data in enumerate(dataloader, 0):
        netD.zero_grad()
        real = data[0]
        label = torch.full((len(real),), real_label)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()
        noise = torch.randn(len(real), noise_size, 1, 1)
        fake = netG(noise)
        label.fill_(fake_label)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        label.fill_(real_label)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        truth.step(len(real), errD_real.detach() + errD_fake.detach())
        if i % 5 == 0:
            fake = netG(fixed_noise)
            fake.detach().mean().item()
truth.tell()
