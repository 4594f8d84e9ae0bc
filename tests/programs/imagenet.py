"""Images: a validation and a checkpoint for each epoch, then the run is resumed."""

import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


def train(loader, model, criterion, optimizer):
    losses = right = 0
    model.train()
    for images, target in loader:
        output = model(images)
        loss = criterion(output, target)
        losses += loss.item()
        right += (output.argmax(1) == target).sum().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(images), loss)


def validate(loader, model, criterion):
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            output = model(images)
            criterion(output, target)
            output.topk(5)[1].t().eq(target).sum().item()
            truth.evaluated(len(images))


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
