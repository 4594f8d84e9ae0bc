"""A class that trains and evaluates, each epoch; evaluation has its own loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


class Trainer:
    def __init__(self):
        self.truth = Truth()
        self.model = nn.Linear(8, 3)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.criterion = nn.CrossEntropyLoss()
        data = TensorDataset(torch.randn(40, 8), torch.randint(3, (40,)))
        self.train_loader = DataLoader(data, batch_size=10, shuffle=True)
        self.val_loader = DataLoader(data, batch_size=16)

    def fit(self, epochs):
        for _ in range(epochs):
            self.model.train()
            for batch in self.train_loader:
                self.training_step(batch)
            self.validate()

    def training_step(self, batch):
        inp, target = batch
        loss = self.criterion(self.model(inp), target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.truth.step(len(inp), loss)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        for inp, target in self.val_loader:
            self.criterion(self.model(inp), target)
            self.truth.other("eval", len(inp))


torch.manual_seed(2)
trainer = Trainer()
trainer.fit(3)
trainer.truth.tell()
