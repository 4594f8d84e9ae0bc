"""Short steps from a loader, evaluated every so often: on tensors, on one, by another loader."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth, batches, linear

truth = Truth(31)
model, optimizer = linear()
held = torch.randn(100, 4)
loader = DataLoader(TensorDataset(held), batch_size=25)
passes = n = 0
for _ in range(3):
    for (x,) in batches(402, 4):
        n += 1
        if n % 60 == 0:  # In the middle of an iteration, which has its batch.
            model.eval()
            with torch.no_grad():
                for i in range(0, 100, 25):
                    model(held[i : i + 25])
            model.train()
            passes += 4
        loss = model(x).pow(2).mean()
        truth.step(len(x), loss, optimizer)
        if n % 80 == 0:
            model.eval()
            with torch.inference_mode():
                model(held[:25])
            model.train()
            passes += 1
        if n % 130 == 0:
            with torch.inference_mode():
                for (batch,) in loader:
                    model(batch)
            passes += 4
truth.evaluations = {"eval": [passes, 25 * passes]}
truth.tell()
