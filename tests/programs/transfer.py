"""Phases of training and validation in one loop; first the head alone, then all of it."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(49)
dataloaders = {
    phase: DataLoader(TensorDataset(torch.randn(n, 4), torch.randint(2, (n,))), batch_size=8)
    for phase, n in (("train", 36), ("val", 20))
}


def train_model(model, criterion, optimizer, epochs):
    for _ in range(epochs):
        for phase in ("train", "val"):
            model.train(phase == "train")
            for inputs, labels in dataloaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                        truth.step(len(inputs), loss)
                    else:
                        truth.evaluated(len(inputs))


body, head = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 2)
model = nn.Sequential(body, head)
body.requires_grad_(False)
train_model(model, nn.CrossEntropyLoss(), optim.SGD(head.parameters(), lr=0.01), 2)
body.requires_grad_(True)
train_model(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.001), 2)
truth.tell()
