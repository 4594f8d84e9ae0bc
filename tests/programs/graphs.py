"""Graphs of several sizes in one batch, which states how many; an evaluation of them, too."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from truth import Truth


class Batch:
    """Nodes of several graphs, and which graph each belongs to."""

    def __init__(self, graphs):
        self.x = torch.cat([x for x, _ in graphs])
        self.y = torch.stack([y for _, y in graphs])
        self.batch = torch.cat([torch.full((len(x),), i) for i, (x, _) in enumerate(graphs)])
        self.num_graphs = len(graphs)

    def to(self, device):
        self.x = self.x.to(device)
        return self


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x, batch, n):
        h = torch.relu(self.inner(x))
        return self.out(torch.zeros(n, 8).index_add(0, batch, h))


truth = Truth(17)
data = [(torch.randn(2 + i % 5, 3), torch.tensor(i % 2)) for i in range(50)]
train_loader = DataLoader(data[:38], batch_size=8, shuffle=True, collate_fn=Batch)
test_loader = DataLoader(data[38:], batch_size=8, collate_fn=Batch)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(4):
    model.train()
    for batch in train_loader:
        batch = batch.to("cpu")
        optimizer.zero_grad()
        out = model(batch.x, batch.batch, batch.num_graphs)
        loss = nn.functional.cross_entropy(out, batch.y)
        loss.backward()
        optimizer.step()
        truth.step(batch.num_graphs, loss)
    model.eval()
    for batch in test_loader:
        with torch.no_grad():
            model(batch.x, batch.batch, batch.num_graphs)
        truth.evaluated(batch.num_graphs)
truth.tell()
