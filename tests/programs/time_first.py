"""A recurrent language model whose tensors have time first, moved by hand; evaluated, too."""

import torch
from torch import nn
from truth import Truth


class RNNModel(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(n, 8), nn.LSTM(8, 8, 1)
        self.decoder = nn.Linear(8, n)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(out).view(-1, self.decoder.out_features), hidden


def batchify(data, size):
    return data[: len(data) // size * size].view(size, -1).t().contiguous()


def get_batch(source, i):
    n = min(bptt, len(source) - 1 - i)
    return source[i : i + n], source[i + 1 : i + 1 + n].view(-1)


def repackage(hidden):
    return tuple(h.detach() for h in hidden)


truth = Truth(39, unknown="items evaluations.eval")  # Time or the batch may be first.
bptt, words, batch_size = 7, 12, 5
train_data = batchify(torch.randint(words, (300,)), batch_size)
val_data = batchify(torch.randint(words, (80,)), 4)
model = RNNModel(words)
for _ in range(2):
    model.train()
    hidden = (torch.zeros(1, batch_size, 8), torch.zeros(1, batch_size, 8))
    for i in range(0, len(train_data) - 1, bptt):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage(hidden)
        output, hidden = model(data, hidden)
        loss = nn.functional.cross_entropy(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.5)
        truth.step(batch_size, loss)
    model.eval()
    hidden = (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))
    with torch.no_grad():
        for i in range(0, len(val_data) - 1, bptt):
            data, _ = get_batch(val_data, i)
            hidden = repackage(model(data, hidden)[1])
            truth.evaluated(4)
truth.tell()
