"""Images: meters, a validation and a checkpoint for each epoch, then the run is resumed."""

import io
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


class AverageMeter:
    def __init__(self, name):
        self.name, self.val, self.sum, self.count = name, 0, 0, 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, found = output.topk(max(topk), 1, True, True)
        right = found.t().eq(target.view(1, -1))
        return [right[:k].float().sum() * (100 / len(target)) for k in topk]


def train(loader, model, criterion, optimizer):
    batch_time, data_time = AverageMeter("time"), AverageMeter("data")
    losses, top1 = AverageMeter("loss"), AverageMeter("top 1")
    model.train()
    end = time.time()
    for images, target in loader:
        data_time.update(time.time() - end)
        output = model(images)
        loss = criterion(output, target)
        acc1, _ = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), len(images))
        top1.update(acc1.item(), len(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        truth.step(len(images), loss)


def validate(loader, model, criterion):
    top1 = AverageMeter("top 1")
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            output = model(images)
            criterion(output, target)
            top1.update(accuracy(output, target)[0].item(), len(images))
            truth.evaluated(len(images))
    return top1.avg


truth = Truth(0)
train_data = TensorDataset(torch.randn(50, 3, 6, 6), torch.randint(8, (50,)))
val_data = TensorDataset(torch.randn(22, 3, 6, 6), torch.randint(8, (22,)))
train_loader = DataLoader(train_data, batch_size=8, shuffle=True)
val_loader = DataLoader(val_data, batch_size=8)
checkpoint = None
for start, epochs in ((0, 2), (2, 3)):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    if checkpoint is not None:
        checkpoint.seek(0)
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        validate(val_loader, model, nn.CrossEntropyLoss())
    for _ in range(start, epochs):
        train(train_loader, model, nn.CrossEntropyLoss(), optimizer)
        validate(val_loader, model, nn.CrossEntropyLoss())
        schedule.step()
        checkpoint = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
truth.tell()
