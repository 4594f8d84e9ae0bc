"""A compiled model over the epochs of a loader, whose last batch is another shape; evaluated."""

import torch
import torch._dynamo
from training import Truth, batches

truth = Truth(52)
loader = batches(44, 8)
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()), backend="eager")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model.train()
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        truth.step(len(x), loss, optimizer)
    truth.evaluate(model, loader)
torch._dynamo.reset()
truth.tell()
