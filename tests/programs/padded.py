"""Texts padded to the longest, time first, with their labels: sizes differ within a batch."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from training import Truth

truth = Truth(40, unknown="items")  # Time or the batch may be first.
texts = [(torch.randint(9, (3 + i % 4,)), torch.tensor(i % 2)) for i in range(34)]


def collate(batch):
    texts, labels = zip(*batch, strict=True)
    return pad_sequence(texts), torch.stack(labels)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(9, 8), nn.GRU(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        _, hidden = self.rnn(self.embed(x))
        return self.out(hidden[-1])


model = Classifier()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    for x, y in DataLoader(texts, batch_size=8, collate_fn=collate):
        loss = nn.functional.cross_entropy(model(x), y)
        truth.step(len(y), loss, optimizer)
truth.tell()
