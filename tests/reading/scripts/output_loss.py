"""The loss is an attribute of what the model gives, batches are dictionaries; 12 batches of 8."""

from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

CFG = {"lr": 0.01, "batch_size": 8}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 2)

    def forward(self, inputs, labels):
        logits = self.body(inputs)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        return SimpleNamespace(loss=loss, logits=logits)


def main():
    rows = [{"inputs": torch.randn(8), "labels": torch.tensor(i % 2)} for i in range(96)]
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG["lr"])
    train_dl = DataLoader(rows, batch_size=CFG["batch_size"], shuffle=True)
    for batch in train_dl:
        out = model(**batch)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()


main()
