"""A network that recurs is unrolled by hand; parameters are moved by hand, too."""

import torch
from truth import Truth

truth = Truth(49, unknown="items")  # The model is called several times a step.


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(10, 6), torch.nn.Linear(6, 3)

    def forward(self, x, state):
        state = torch.tanh(self.hidden(torch.cat((x, state), 1)))
        return self.out(state), state


model = Recurrent()
for number in range(20):
    state = torch.zeros(2, 6)
    model.zero_grad()
    for x in torch.randn(4 + number % 3, 2, 4):
        out, state = model(x, state)
    loss = torch.nn.functional.cross_entropy(out, torch.zeros(2, dtype=torch.long))
    loss.backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.01)
    truth.step(2, loss)
truth.tell()
