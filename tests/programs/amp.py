"""Mixed precision; the scaler leaves out a step whose gradients are infinite."""

import torch
from training import Truth, batches, linear

truth = Truth(9)
loader = batches(32, 4, 1)
model, optimizer = linear()
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
items = 0
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.mse_loss(model(x), y)
    if i == 2:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    items += len(x)
    if scaler.get_scale() >= before:
        truth.step(items, loss)
        items = 0
truth.tell()
