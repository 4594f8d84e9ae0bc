"""Back-propagation through a part of the time: several steps from each batch, with its state."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from training import Truth

truth = Truth(69)
loader = DataLoader(TensorDataset(torch.randn(26, 12, 3)), batch_size=6)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x, state):
        h, state = self.rnn(x, state)
        return self.out(h), state


model = Model()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    for (x,) in loader:
        state = None
        for t in range(0, 12, 4):
            out, state = model(x[:, t : t + 4], state)
            state = state.detach()
            loss = (out[:, :-1] - x[:, t + 1 : t + 4]).pow(2).mean()
            truth.step(len(x), loss, optimizer)
truth.tell()
