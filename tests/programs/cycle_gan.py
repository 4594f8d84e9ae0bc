"""Two generators with one optimizer, two discriminators with one each, pictures of two kinds."""

from itertools import chain

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(66)
data = TensorDataset(torch.randn(34, 4), torch.randn(34, 4))
dataloader = DataLoader(data, batch_size=4, shuffle=True)
G_AB, G_BA, D_A, D_B = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
optimizer_G = torch.optim.Adam(chain(G_AB.parameters(), G_BA.parameters()), lr=2e-4)
optimizer_D_A = torch.optim.Adam(D_A.parameters(), lr=2e-4)
optimizer_D_B = torch.optim.Adam(D_B.parameters(), lr=2e-4)
mse, l1 = nn.MSELoss(), nn.L1Loss()
for epoch in range(2):
    for i, (real_A, real_B) in enumerate(dataloader):
        valid, fake = torch.ones(len(real_A), 1), torch.zeros(len(real_A), 1)
        G_AB.train()
        same = l1(G_BA(real_A), real_A) + l1(G_AB(real_B), real_B)
        fake_B, fake_A = G_AB(real_A), G_BA(real_B)
        fooled = mse(D_B(fake_B), valid) + mse(D_A(fake_A), valid)
        around = l1(G_BA(fake_B), real_A) + l1(G_AB(fake_A), real_B)
        loss_G = fooled + 10 * around + 5 * same
        truth.step(len(real_A), loss_G, optimizer_G)
        for D, optimizer, real, made in (
            (D_A, optimizer_D_A, real_A, fake_A),
            (D_B, optimizer_D_B, real_B, fake_B),
        ):
            optimizer.zero_grad()
            loss_D = (mse(D(real), valid) + mse(D(made.detach()), fake)) / 2
            loss_D.backward()
            optimizer.step()
        if (epoch * len(dataloader) + i) % 6 == 5:
            G_AB.eval()
            with torch.no_grad():
                G_AB(real_A)
            G_AB.train()
            truth.evaluated(len(real_A))
truth.tell()
