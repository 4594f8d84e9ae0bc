"""Epochs that are broken off by a count, and a sanity check that is: loaders begin anew."""

import torch
from training import Truth, batches, linear

truth = Truth(59)
loader = batches(83, 8, shuffle=True)
val_loader = batches(60, 8)
model, optimizer = linear()


@torch.no_grad()
def validate(limit):
    model.eval()
    for i, (x,) in enumerate(val_loader):
        if i >= limit:
            break
        model(x)
        truth.evaluated(len(x))
    model.train()


validate(2)
for _ in range(4):
    for i, (x,) in enumerate(loader):
        loss = model(x).pow(2).mean()
        truth.step(len(x), loss, optimizer)
        if i == 6:
            break
    validate(3)
truth.tell()
