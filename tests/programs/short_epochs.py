"""Many short epochs of one loader; between some, passes that nothing is learned from."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(37)
truth = Truth()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(46, 4)), batch_size=4)
for epoch in range(40):
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        truth.step(len(x), loss)
    if epoch % 9 == 8:  # The same loader, in training mode: only gradients are off.
        with torch.no_grad():
            for (x,) in loader:
                model(x)
                truth.evaluated(len(x))
    if epoch % 13 == 12:
        model.eval()
        with torch.inference_mode():
            model(torch.randn(50, 4))
        model.train()
        truth.evaluated(50)
truth.tell()
