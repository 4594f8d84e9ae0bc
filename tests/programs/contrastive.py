"""Two views of each picture go through one model; a second model follows it slowly."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from truth import Truth


class Views(Dataset):
    def __len__(self):
        return 44

    def __getitem__(self, index):
        x = torch.randn(6)
        return (x + 0.1 * torch.randn(6), x + 0.1 * torch.randn(6)), index % 3


torch.manual_seed(44)
truth = Truth()
online = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
target, predictor = copy.deepcopy(online), nn.Linear(4, 4)
optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()])
for _ in range(3):
    for (one, two), _ in DataLoader(Views(), batch_size=10, shuffle=True):
        p1, p2 = predictor(online(one)), predictor(online(two))
        with torch.no_grad():
            z1, z2 = target(one), target(two)
        near = nn.functional.cosine_similarity
        loss = 2 - near(p1, z2).mean() - near(p2, z1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        truth.step(len(one), loss)
truth.tell()
