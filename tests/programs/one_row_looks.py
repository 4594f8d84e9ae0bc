"""An agent looks at one state between updates: that is no evaluation."""

import torch
from training import Truth, linear

truth = Truth(73)
model, optimizer = linear()
for _ in range(6):
    model.eval()
    with torch.no_grad():
        model(torch.randn(1, 4))
    model.train()
    for _ in range(5):
        loss = model(torch.randn(16, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(16, loss)
truth.tell()
