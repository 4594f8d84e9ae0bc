"""Many short steps that are all alike, but for an evaluation, a smaller batch, a step left out."""

import torch
from truth import Truth

torch.manual_seed(26)
truth = Truth()
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(400):
    if step % 150 == 149:
        model.eval()
        with torch.no_grad():
            for _ in range(7):
                model(torch.randn(11, 4))
                truth.other("eval", 11)
        model.train()
    x = torch.randn(3 if step > 395 else 8, 4)
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    if step != 250:  # Nothing of it is left: its gradients are thrown away.
        optimizer.step()
        truth.step(len(x), loss)
truth.tell()
