"""Batches are dictionaries, the model is called by keywords and returns its loss."""

import torch
from torch.utils.data import DataLoader, Dataset
from training import Truth

truth = Truth(16)


class Texts(Dataset):
    def __len__(self):
        return 30

    def __getitem__(self, index):
        return {"input_ids": torch.arange(6) % 5, "labels": torch.tensor(index % 3)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(5, 8), torch.nn.Linear(8, 3)

    def forward(self, input_ids=None, labels=None):
        logits = self.head(self.embed(input_ids).mean(dim=1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


model = Model()
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(Texts(), batch_size=8):
    batch = {key: value.to("cpu") for key, value in batch.items()}
    loss = model(**batch)["loss"]
    truth.step(len(batch["labels"]), loss, optimizer)
truth.tell()
