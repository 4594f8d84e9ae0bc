"""An encoder and a decoder, one optimizer for both."""

from itertools import chain

import torch
from torch import nn
from truth import Truth

torch.manual_seed(10)
truth = Truth()
encoder, decoder = nn.Linear(6, 2), nn.Linear(2, 6)
optimizer = torch.optim.Adam(chain(encoder.parameters(), decoder.parameters()))
for size in (5, 5, 5, 3):
    x = torch.randn(size, 6)
    loss = (decoder(encoder(x)) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth.step(size, loss)
truth.tell()
