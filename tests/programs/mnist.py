"""Digits: a convolution, an epoch in a function, a test behind each, a schedule, a saved model."""

import argparse
import io

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(36, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.log_softmax(self.fc(torch.flatten(self.dropout(x), 1)), dim=1)


def train(args, model, loader, optimizer, epoch, truth):
    model.train()
    for number, (data, target) in enumerate(loader):
        data, target = data.to("cpu"), target.to("cpu")
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        truth.step(len(data), loss)
        if number % args.log_interval == 0:
            print(f"epoch {epoch} [{number * len(data)}/{len(loader.dataset)}] {loss.item():.4f}")
            if args.dry_run:
                break


def test(model, loader, truth):
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
            truth.evaluated(len(data))
    print(f"test: {test_loss / len(loader.dataset):.4f}, {correct} right")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--log-interval", type=int, default=5)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    truth = Truth(1)
    digits = TensorDataset(torch.randn(122, 1, 8, 8), torch.randint(10, (122,)))
    train_loader = DataLoader(digits, batch_size=16, shuffle=True)
    test_loader = DataLoader(digits, batch_size=50)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, model, train_loader, optimizer, epoch, truth)
        test(model, test_loader, truth)
        scheduler.step()
    torch.save(model.state_dict(), io.BytesIO())
    truth.tell()


if __name__ == "__main__":
    main()
