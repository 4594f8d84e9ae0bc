"""Forward-forward: each layer has its optimizer and learns for a while, then the next one does."""

import torch
from torch import nn
from training import Truth


class Layer(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.opt = torch.optim.Adam(self.parameters(), lr=0.03)

    def forward(self, x):
        return torch.relu(super().forward(x / (x.norm(2, 1, keepdim=True) + 1e-4)))

    def learn(self, good, bad, epochs):
        for _ in range(epochs):
            g_good, g_bad = self(good).pow(2).mean(1), self(bad).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([2 - g_good, g_bad - 2]))).mean()
            truth.step(len(good), loss, self.opt)
        return self(good).detach(), self(bad).detach()


truth = Truth(15, unknown="items")  # Each layer is called twice a step: good and bad are apart.
layers = [Layer(8, 16), Layer(16, 16), Layer(16, 4)]
good, bad = torch.randn(24, 8), torch.randn(24, 8)
for number, layer in enumerate(layers):
    good, bad = layer.learn(good, bad, 12 + number)
truth.tell()
