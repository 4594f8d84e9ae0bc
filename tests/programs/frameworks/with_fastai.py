"""fastai: ``fit`` of a Learner, which validates after each epoch."""

import json

import torch
from fastai.data.core import DataLoaders
from fastai.learner import Learner

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(50, 4), torch.randn(50, 1))
held = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.randn(20, 1))
loaders = DataLoaders.from_dsets(data, held, bs=8, num_workers=0, drop_last=False)
learner = Learner(loaders, torch.nn.Linear(4, 1), loss_func=torch.nn.functional.mse_loss, lr=0.01)
with learner.no_bar(), learner.no_logging():
    learner.fit(2)
steps = 2 * len(loaders.train)
passes = 2 * len(loaders.valid)
items = 2 * (50 // 8 * 8 if loaders.train.drop_last else 50)
print(json.dumps({"steps": steps, "items": items, "evaluations": {"eval": [passes, 40]}}))
