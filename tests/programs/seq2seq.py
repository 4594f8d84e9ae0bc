"""An encoder and a decoder with an optimizer each: one backward, then both step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(9, 8), nn.GRU(8, 8, batch_first=True), None
        self.out = nn.Linear(8, 9)

    def forward(self, hidden, target):
        out, _ = self.gru(self.embed(target), hidden)
        return self.out(out)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Embedding(9, 8), nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        return self.gru(self.embed(x))


def train_epoch(dataloader, encoder, decoder, encoder_optimizer, decoder_optimizer, criterion):
    total_loss = 0
    for data in dataloader:
        input_tensor, target_tensor = data
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        _, hidden = encoder(input_tensor)
        outputs = decoder(hidden, target_tensor)
        loss = criterion(outputs.view(-1, 9), target_tensor.view(-1))
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        total_loss += loss.item()
        truth.step(len(input_tensor), loss)
    return total_loss / len(dataloader)


torch.manual_seed(43)
truth = Truth()
words = TensorDataset(torch.randint(9, (37, 5)), torch.randint(9, (37, 5)))
encoder, decoder = Encoder(), Decoder()
optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (encoder, decoder)]
for _ in range(4):
    loader = DataLoader(words, batch_size=8)
    train_epoch(loader, encoder, decoder, *optimizers, nn.CrossEntropyLoss())
truth.tell()
