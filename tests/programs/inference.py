"""Nothing is trained: a model is applied to a loader's batches."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

truth = Truth(12)
model = torch.nn.Linear(4, 2).eval()
with torch.inference_mode():
    for (x,) in DataLoader(TensorDataset(torch.randn(50, 4)), batch_size=8):
        model(x)
        truth.other("inference", len(x))
truth.tell()
