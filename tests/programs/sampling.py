"""A copy of the model that lags behind draws samples, one step after the other, now and then."""

import copy

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(48, unknown="evaluations")  # The copy has not learned.
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU(), torch.nn.Linear(8, 8))
average = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(48, 8)), batch_size=16, shuffle=True)


def forever():
    while True:
        yield from loader


batches = forever()
for number in range(60):
    (x,) = next(batches)
    noise = torch.randn_like(x)
    loss = (model(x + noise) - noise).pow(2).mean()
    truth.step(len(x), loss, optimizer)
    with torch.no_grad():
        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(parameter, 0.01)
        x = torch.randn(4, 8)
        for _ in range(0 if number % 20 else 5):
            x = x - 0.1 * average(x)
            truth.other("eval", 4)
truth.tell()
