"""Train a small convolutional network on the UCI handwritten digits."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def load_data(batch_size, seed):
    digits = load_digits()
    images = torch.from_numpy(digits.images.astype(np.float32) / 16).unsqueeze(1)
    labels = torch.from_numpy(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    cut = int(0.8 * len(images))
    train, test = order[:cut], order[cut:]
    return (
        DataLoader(
            TensorDataset(images[train], labels[train]), batch_size=batch_size, shuffle=True
        ),
        DataLoader(TensorDataset(images[test], labels[test]), batch_size=256),
    )


def train_epoch(model, criterion, optimizer, loader, device):
    model.train()
    for inp, target in loader:
        inp = inp.to(device)
        target = target.to(device)
        output = model(inp)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    for inp, target in loader:
        guess = model(inp.to(device)).argmax(dim=1)
        correct += (guess == target.to(device)).sum().item()
        total += len(target)
    return correct / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = make_model()
    model.to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    train_loader, test_loader = load_data(args.batch_size, args.seed)

    for epoch in range(args.epochs):
        train_epoch(model, criterion, optimizer, train_loader, device)
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: test accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
