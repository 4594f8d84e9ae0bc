"""A class of one's own that holds everything; 2 x 6 steps of 8."""

from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    epochs: int = 2
    lr: float = 0.05


class Trainer:
    def __init__(self, model, train_loader, config):
        self.model = model
        self.train_loader = train_loader
        self.config = config
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config.lr)

    def training_loss(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.model(x), y)

    def fit(self):
        for epoch in range(self.config.epochs):
            self.run_epoch(epoch)

    def run_epoch(self, epoch):
        self.model.train()
        for batch in self.train_loader:
            loss = self.training_loss(batch)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
        self.save_checkpoint(epoch)

    def save_checkpoint(self, epoch):
        self.last = {"epoch": epoch, "model": self.model.state_dict()}


def build():
    data = TensorDataset(torch.randn(48, 8), torch.randn(48, 1))
    config = Config()
    return Trainer(torch.nn.Linear(8, 1), DataLoader(data, batch_size=8), config)


build().fit()
