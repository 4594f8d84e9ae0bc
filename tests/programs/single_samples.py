"""States and images that come one by one, not in batches; and many points in one dimension."""

import torch
from torch import nn
from training import Truth

truth = Truth(41, unknown="items")  # A vector may be a sample or a batch.


def learn(model, samples, make, steps=40):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = model(make()).pow(2).mean()
        truth.step(samples, loss, optimizer)


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.a + self.b * x


class Wave(nn.Sequential):
    def forward(self, x):
        return super().forward(x.unsqueeze(1))


learn(nn.Linear(4, 2), 1, lambda: torch.randn(4))
learn(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(0)), 1, lambda: torch.randn(3, 5, 5), 10)
learn(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten()), 3, lambda: torch.randn(3, 3, 5, 5), 10)
learn(Line(), 50, lambda: torch.linspace(-1, 1, 50))
learn(Wave(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)), 9, lambda: torch.rand(9))


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Conv2d(3, 2, 3)

    def forward(self, images):
        return torch.stack([self.look(image).mean() for image in images])


class Named(nn.Linear):
    def forward(self, *, inputs):
        return super().forward(inputs)


gray = nn.Sequential(nn.Unflatten(0, (4, 1)), nn.Conv2d(1, 4, 3))
learn(Mean(), 5, lambda: [torch.randn(3, 5, 5 + i) for i in range(5)])
learn(gray, 4, lambda: torch.randn(4, 6, 6))
named = Named(4, 1)
optimizer = torch.optim.SGD(named.parameters(), lr=1e-3)
for _ in range(40):
    loss = named(inputs=torch.randn(6, 4)).pow(2).mean()
    truth.step(6, loss, optimizer)
learn(nn.Sequential(nn.LazyLinear(2)), 3, lambda: torch.randn(3, 4))
truth.tell()
