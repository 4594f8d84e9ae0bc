"""Accelerate: accumulation, batches fetched ahead."""

import json

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(46, 4), torch.randn(46, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=4))
steps = items = 0
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        steps, items = steps + accelerator.sync_gradients, items + len(x)
print(json.dumps({"train": [steps, items]}))
