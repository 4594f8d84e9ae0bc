"""LBFGS on the batches of a loader, with an evaluation behind each epoch."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(14)
x = torch.randn(70, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=20)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
for _ in range(4):
    for x, y in loader:
        losses = []

        def closure(x=x, y=y, losses=losses):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            losses.append(loss.detach())
            return loss

        optimizer.step(closure)
        truth.step(len(x), losses[0])
    truth.evaluate(model, loader)
truth.tell()
