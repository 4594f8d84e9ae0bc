"""Automatic mixed precision, batches that are dictionaries, a progress bar; 12 steps of 8."""

import torch
from torch.utils.data import DataLoader, Dataset


class Words(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        return {"input_ids": torch.randn(8), "labels": torch.tensor(index % 4)}


def tqdm(iterable):
    yield from iterable


def train(model, train_dataloader, optimizer, scaler):
    for step, batch in enumerate(tqdm(train_dataloader)):  # noqa: B007
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(batch["input_ids"])
            loss = torch.nn.functional.cross_entropy(logits.float(), batch["labels"])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


if __name__ == "__main__":
    model = torch.nn.Linear(8, 4)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    train(
        model, DataLoader(Words(), batch_size=8), torch.optim.SGD(model.parameters(), 0.1), scaler
    )
