"""Sharpness-aware minimisation learns from each batch twice: by two calls, and with a closure."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(43)


class Sharpness(torch.optim.Optimizer):
    def __init__(self, params, **options):
        super().__init__(params, options)
        self.base = torch.optim.SGD(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["before"] = parameter.clone()
            parameter.add_(parameter.grad, alpha=0.05)
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.copy_(self.state[parameter]["before"])
        self.base.step()
        self.zero_grad()

    def step(self, closure):
        self.climb()
        with torch.enable_grad():
            closure()
        self.descend()


def learn(batches, closes):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = Sharpness(model.parameters(), lr=0.05)

    def closure():
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    for (x,) in batches:
        loss = closure()
        if closes:
            optimizer.step(closure)
        else:
            optimizer.climb()
            closure()
            optimizer.descend()
        truth.step(len(x), loss)


data = torch.randn(70, 4)
for closes in (False, True):
    learn(((data[i : i + 8],) for i in range(0, 70, 8)), closes)
    learn(DataLoader(TensorDataset(data), batch_size=8), closes)
truth.tell()
