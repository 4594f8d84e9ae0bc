"""A loader with worker processes that stay, over epochs; evaluated by one of its own."""

import torch
from torch.utils.data import DataLoader
from training import Truth, batches, linear

if __name__ == "__main__":
    truth = Truth(57)
    data = torch.randn(44, 4)
    loader = DataLoader(data, batch_size=8, num_workers=1, persistent_workers=True)
    held = batches(20, 8)
    model, optimizer = linear()
    for _ in range(3):
        for x in loader:
            loss = model(x).pow(2).mean()
            truth.step(len(x), loss, optimizer)
        truth.evaluate(model, held)
    truth.tell()
