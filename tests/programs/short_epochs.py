"""Many short epochs of one loader; between some, passes that nothing is learned from."""

import torch
from training import Truth, batches, linear

truth = Truth(37)
model, optimizer = linear()
loader = batches(46, 4)
for epoch in range(40):
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        truth.step(len(x), loss, optimizer)
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
