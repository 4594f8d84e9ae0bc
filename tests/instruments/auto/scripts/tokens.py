"""Batches that say how many tokens they hold."""

import torch
from telling import Truth
from torch.utils.data import DataLoader

torch.manual_seed(44)
truth = Truth()
truth.units = "tokens"
texts = [torch.randint(9, (5 + i % 3,)) for i in range(22)]


def collate(chosen):
    padded = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True)
    return {"input_ids": padded, "ntokens": sum(map(len, chosen))}


model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(9):
    for batch in DataLoader(texts, batch_size=4, collate_fn=collate):
        loss = model(batch["input_ids"]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(batch["ntokens"], loss)
truth.tell()
