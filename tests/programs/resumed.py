"""A run that goes on within an epoch: what was done is skipped, batch by batch."""

import io

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth, linear

truth = Truth(26, unknown="items")  # The last batch is smaller, and which were skipped is not seen.
data = TensorDataset(torch.randn(46, 4))
saved = io.BytesIO()
model, optimizer = linear()
torch.save({"model": model.state_dict(), "epoch": 1, "batch": 5}, saved)
saved.seek(0)
state = torch.load(saved, weights_only=True)
model.load_state_dict(state["model"])
for epoch in range(state["epoch"], 3):
    for number, (x,) in enumerate(DataLoader(data, batch_size=8)):
        if epoch == state["epoch"] and number < state["batch"]:
            continue
        loss = model(x).pow(2).mean()
        truth.step(len(x), loss, optimizer)
truth.tell()
