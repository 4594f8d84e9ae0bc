"""Two networks, two optimizers, two losses; 12 steps of 8."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    netG, netD = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4)
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4)
    criterion = nn.BCELoss()
    dataloader = DataLoader(TensorDataset(torch.randn(96, 8)), batch_size=8)
    for i, data in enumerate(dataloader, 0):  # noqa: B007
        netD.zero_grad()
        real = data[0]
        label = torch.ones(len(real), 1)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        fake = netG(torch.randn(len(real), 4))
        errD_fake = criterion(netD(fake.detach()), torch.zeros(len(real), 1))
        errD_fake.backward()
        optimizerD.step()
        netG.zero_grad()
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()


main()
