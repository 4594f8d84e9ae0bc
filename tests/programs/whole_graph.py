"""One graph, all of it in each step: a split is learned from, another is looked at."""

import torch
from torch import nn
from truth import Truth


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x, adjacency):
        return self.two(adjacency @ torch.relu(self.one(adjacency @ x)))


torch.manual_seed(18)
truth = Truth()
x, adjacency = torch.randn(40, 5), torch.softmax(torch.randn(40, 40), 1)
y, train_mask = torch.randint(3, (40,)), torch.arange(40) < 30
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train():
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x, adjacency)[train_mask], y[train_mask])
    loss.backward()
    optimizer.step()
    truth.step(40, loss)


@torch.no_grad()
def test():
    model.eval()
    found = model(x, adjacency).argmax(-1)
    truth.evaluated(40)
    return (found[~train_mask] == y[~train_mask]).float().mean()


for _ in range(20):
    train()
    test()
truth.tell()
