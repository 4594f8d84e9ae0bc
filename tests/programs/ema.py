"""An average of the weights follows the model, and is what is evaluated and saved."""

import io

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training import Truth, batches

truth = Truth(35)
train_loader = batches(66, 8, 1)
val_loader = batches(20, 8, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model.train()
    for x, y in train_loader:
        loss = nn.functional.mse_loss(model(x), y)
        truth.step(len(x), loss, optimizer)
        ema.update_parameters(model)
    truth.evaluate(ema, val_loader)
    torch.save(ema.state_dict(), io.BytesIO())
truth.tell()
