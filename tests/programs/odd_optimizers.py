"""An optimizer of the script's own that calls its base, wrapped by another; made anew later."""

import torch
from training import Truth

truth = Truth(15)


class Clipped(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        return super().step(closure)


class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure=None):
        return self.inner.step(closure)


torch.optim.SGD([torch.zeros(1)], lr=0.1)  # So that the base's step is hooked as well.
model = torch.nn.Linear(4, 1)
for make in (Clipped, lambda *a, **k: Lookahead(Clipped(*a, **k)), torch.optim.Adam):
    optimizer = make(model.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(7, 4)
        loss = model(x).pow(2).mean()
        truth.step(7, loss, optimizer)
truth.tell()
