"""A library's object calls backward; 12 steps of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Accelerator:
    device = torch.device("cpu")

    def prepare(self, *things):
        return things

    def backward(self, loss):
        loss.backward()


def training_function(config):
    accelerator = Accelerator()
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(params=model.parameters(), lr=config["lr"])
    data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
    train_dataloader = DataLoader(data, batch_size=config["batch_size"])
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)
    for _ in range(config["num_epochs"]):
        for step, batch in enumerate(train_dataloader):  # noqa: B007
            outputs = model(batch[0])
            loss = torch.nn.functional.cross_entropy(outputs, batch[1])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


def main():
    config = {"lr": 2e-2, "num_epochs": 2, "batch_size": 8}
    training_function(config)


main()
