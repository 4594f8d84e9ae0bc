"""Texts of a batch in one line, with offsets: labels, words and offsets are of different length."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from training import Truth

truth = Truth(41, unknown="items")  # Three tensors, of which none says that it is the batch.
texts = [(torch.randint(20, (2 + i % 6,)), i % 3) for i in range(40)]


def collate_batch(batch):
    words, labels = zip(*batch, strict=True)
    lengths = torch.tensor([0, *map(len, words)][:-1])
    return torch.tensor(labels), torch.cat(words), lengths.cumsum(0)[: len(batch) - 1]


class TextClassification(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.EmbeddingBag(20, 8), nn.Linear(8, 3)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


model = TextClassification()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(3):
    for label, text, offsets in DataLoader(texts, batch_size=8, collate_fn=collate_batch):
        rows = model(text, torch.cat((offsets, torch.tensor([len(text)]))))
        loss = nn.functional.cross_entropy(rows, label)
        truth.step(len(label), loss, optimizer)
truth.tell()
