"""Two optimizers share one model, and step one after the other."""

import torch
from truth import Truth

truth = Truth(22, unknown="items")  # A vector may be a sample or a batch.
model = torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 1))
sparse = torch.optim.SparseAdam(model[0].parameters(), lr=0.01)
dense = torch.optim.Adam(model[1].parameters(), lr=0.01)
for _ in range(6):
    x = torch.randint(10, (8,))
    loss = model(x).pow(2).mean()
    for optimizer in (sparse, dense):
        optimizer.zero_grad()
    loss.backward()
    for optimizer in (sparse, dense):
        optimizer.step()
    truth.step(8, loss)
truth.tell()
