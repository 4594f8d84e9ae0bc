"""A GAN with a gradient penalty; batches without end, five for the critic, then one generator's."""

import torch
from torch import autograd, nn
from training import Truth, batches

truth = Truth(6)
netG, netD = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-4)
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-4)
loader = batches(48, 8)


def endless():
    while True:
        for (images,) in loader:
            yield images


def penalty(real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_()
    (slope,) = autograd.grad(netD(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean() * 10


data = endless()
for _ in range(6):
    for _ in range(5):  # Each batch of these is a step; the generator's belongs to the last.
        real = next(data)
        netD.zero_grad()
        real_loss = -netD(real).mean()
        real_loss.backward()
        fake = netG(torch.randn(len(real), 2)).detach()
        fake_loss = netD(fake).mean()
        fake_loss.backward()
        more = penalty(real, fake)
        more.backward()
        optimizerD.step()
        truth.step(len(real), real_loss.detach() + fake_loss.detach() + more.detach())
    netG.zero_grad()
    loss = -netD(netG(torch.randn(8, 2))).mean()
    loss.backward()
    optimizerG.step()
truth.tell()
