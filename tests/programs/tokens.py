"""Batches that say how many tokens they hold."""

import torch
from torch.utils.data import DataLoader
from training import Truth

truth = Truth(44)
texts = [torch.randint(9, (5 + i % 3,)) for i in range(22)]


class Batch:
    def __init__(self, input_ids, num_tokens):
        self.input_ids, self.num_tokens = input_ids, num_tokens


def collate(chosen):
    padded = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True)
    return Batch(padded, sum(map(len, chosen)))


model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(9):
    for batch in DataLoader(texts, batch_size=4, collate_fn=collate):
        loss = model(batch.input_ids).pow(2).mean()
        truth.step(batch.num_tokens, loss, optimizer)
truth.tell()
