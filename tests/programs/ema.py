"""An average of the weights follows the model, and is what is evaluated and saved."""

import io

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset
from truth import Truth

torch.manual_seed(35)
truth = Truth()
train_loader = DataLoader(TensorDataset(torch.randn(66, 4), torch.randn(66, 1)), batch_size=8)
val_loader = DataLoader(TensorDataset(torch.randn(20, 4), torch.randn(20, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model.train()
    for x, y in train_loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        truth.step(len(x), loss)
    ema.eval()
    with torch.inference_mode():
        for x, _ in val_loader:
            ema(x)
            truth.evaluated(len(x))
    torch.save(ema.state_dict(), io.BytesIO())
truth.tell()
