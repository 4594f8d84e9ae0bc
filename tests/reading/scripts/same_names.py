"""Training and evaluation in one function, with the same variables; 2 x 6 steps of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))


def main():
    train_loader, val_loader = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in train_loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        correct = 0
        with torch.no_grad():
            for x, y in val_loader:
                correct += int((model(x).argmax(1) == y).sum())


main()
