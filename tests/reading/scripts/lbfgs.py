"""An optimizer that calls a closure, several times a step; 12 steps of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def fit(model, loader, epochs):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    for _ in range(epochs):
        for features, target in loader:

            def closure(features=features, target=target):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(features), target)
                loss.backward()
                return loss

            optimizer.step(closure)


torch.manual_seed(0)  # With some data it diverges.
model = torch.nn.Linear(8, 1)
fit(model, DataLoader(TensorDataset(torch.randn(48, 8), torch.randn(48, 1)), batch_size=8), 2)
