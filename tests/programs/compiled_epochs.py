"""A compiled model over the epochs of a loader, whose last batch is another shape; evaluated."""

import torch
import torch._dynamo
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(52)
truth = Truth()
loader = DataLoader(TensorDataset(torch.randn(44, 4)), batch_size=8)
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()), backend="eager")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model.train()
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
    model.eval()
    with torch.no_grad():
        for (x,) in loader:
            model(x)
            truth.evaluated(len(x))
torch._dynamo.reset()
truth.tell()
