"""A function that goes over a loader once, called for each epoch; 3 x 6 steps of 8."""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(model, criterion, optimizer, loader, device):
    for inp, target in loader:
        inp, target = inp.to(device), target.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inp), target)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader, device):
    return sum((model(x.to(device)).argmax(1) == y).sum().item() for x, y in loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
    train_loader, test_loader = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    model = nn.Linear(8, 4).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(args.epochs):
        train_epoch(model, nn.CrossEntropyLoss(), optimizer, train_loader, device)
        evaluate(model, test_loader, device)


if __name__ == "__main__":
    main()
