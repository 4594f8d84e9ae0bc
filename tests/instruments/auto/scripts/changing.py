import json

import torch

torch.manual_seed(2)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses, items = [], 0


def step(passes, same=False):
    """One step; of steps that were all alike until now, voir knows the pattern."""
    global items
    total = 0.0
    for _ in range(passes):
        batch = torch.randn(3, 4)
        items += 3
        loss = model(batch).pow(2).mean()
        loss.backward(retain_graph=same)
        total += loss.item()
        if same:
            (loss * 2).backward()
            total += 2 * loss.item()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(total)


for _ in range(80):
    step(1)
for _ in range(10):
    step(2)  # From here on, gradients are accumulated.
for _ in range(80):
    step(1)
for _ in range(10):
    step(3)
step(1, same=True)
for _ in range(60):
    step(1)
print(json.dumps({"steps": len(losses), "items": items, "losses": losses, "others": {}}))
