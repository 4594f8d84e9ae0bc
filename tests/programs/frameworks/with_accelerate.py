"""Accelerate: accumulation, batches fetched ahead, an evaluation's too."""

import json

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(46, 4), torch.randn(46, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader, held = DataLoader(data, batch_size=4), DataLoader(TensorDataset(data[:18][0]), batch_size=4)
model, optimizer, loader, held = accelerator.prepare(model, optimizer, loader, held)
steps = items = passes = evaluated = 0
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        steps, items = steps + accelerator.sync_gradients, items + len(x)
    model.eval()
    for (x,) in held:
        with torch.no_grad():
            model(x)
        passes, evaluated = passes + 1, evaluated + len(x)
    model.train()
evaluations = {"eval": [passes, evaluated]}
print(json.dumps({"steps": steps, "items": items, "evaluations": evaluations}))
