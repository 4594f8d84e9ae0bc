"""A loader with worker processes that stay, over epochs; evaluated by one of its own."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

if __name__ == "__main__":
    torch.manual_seed(57)
    truth = Truth()
    loader = DataLoader(
        TensorDataset(torch.randn(44, 4)), batch_size=8, num_workers=1, persistent_workers=True
    )
    held = DataLoader(TensorDataset(torch.randn(20, 4)), batch_size=8)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
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
            for (x,) in held:
                model(x)
                truth.evaluated(len(x))
    truth.tell()
