"""Nothing is learned; 12 batches of 8."""

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(8, 4).eval()
loader = DataLoader(TensorDataset(torch.randn(96, 8)), batch_size=8)


@torch.inference_mode()
def predict(model, loader):
    found = []
    for (images,) in loader:
        found.append(model(images).argmax(1))
    return torch.cat(found)


predict(model, loader)
