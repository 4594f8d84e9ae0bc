"""A variational autoencoder: losses are sums, and samples are drawn by one of its methods."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from training import Truth


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 8)
        self.mean, self.spread = nn.Linear(8, 3), nn.Linear(8, 3)
        self.fc3, self.fc4 = nn.Linear(3, 8), nn.Linear(8, 16)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.mean(h), self.spread(h)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mean, spread = self.encode(x.view(-1, 16))
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        return self.decode(z), mean, spread


def loss_function(made, x, mean, spread):
    near = F.binary_cross_entropy(made, x.view(-1, 16), reduction="sum")
    return near - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())


def train():
    model.train()
    total = 0
    for data, _ in train_loader:
        loss = loss_function(model(data)[0], data, *model(data)[1:])
        truth.step(len(data), loss, optimizer)
        total += loss.item()


def test():
    model.eval()
    with torch.no_grad():
        for data, _ in test_loader:
            made, mean, spread = model(data)
            loss_function(made, data, mean, spread).item()
            truth.evaluated(len(data))


truth = Truth(1)
images = TensorDataset(torch.rand(70, 1, 4, 4), torch.zeros(70))
train_loader = DataLoader(images, batch_size=16, shuffle=True)
test_loader = DataLoader(images, batch_size=32)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    train()
    test()
    with torch.no_grad():
        model.decode(torch.randn(12, 3)).cpu()  # By layers of it: no pass of the model.
truth.tell()
