"""A compiled model, in one graph, that must not be compiled again; and one compiled in place."""

import torch
import torch._dynamo
from truth import Truth

torch.manual_seed(24)
torch._dynamo.config.error_on_recompile = True
truth = Truth()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


for inplace in (False, True):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if inplace:
        model.compile(backend="eager", fullgraph=True)
    else:
        model = torch.compile(model, backend="eager", fullgraph=True)
    for _ in range(5):
        x = torch.randn(6, 4)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(6, loss)
torch._dynamo.config.error_on_recompile = False
torch._dynamo.reset()
truth.tell()
