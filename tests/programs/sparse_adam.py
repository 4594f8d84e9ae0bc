"""Embeddings by negative sampling: a model that returns its loss, lists of numbers as input."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from truth import Truth


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v = nn.Embedding(30, 8, sparse=True), nn.Embedding(30, 8, sparse=True)

    def forward(self, centre, context, others):
        near = (self.u(centre) * self.v(context)).sum(1)
        far = torch.bmm(self.v(others), self.u(centre).unsqueeze(2)).squeeze(2)
        return -(nn.functional.logsigmoid(near) + nn.functional.logsigmoid(-far).sum(1)).mean()


torch.manual_seed(60)
truth = Truth()
pairs = [(i % 30, (i * 7) % 30) for i in range(90)]


def collate(chosen):
    centre, context = map(torch.tensor, zip(*chosen, strict=True))
    return centre, context, torch.randint(30, (len(chosen), 4))


model = SkipGram()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-2)
for _ in range(2):
    for batch in DataLoader(pairs, batch_size=16, shuffle=True, collate_fn=collate):
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        truth.step(len(batch[0]), loss)
truth.tell()
