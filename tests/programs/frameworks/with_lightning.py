"""Lightning: closures, accumulation, a sanity check and validation."""

import json

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.mse_loss(self(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        self.log("loss", torch.nn.functional.mse_loss(self(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


torch.manual_seed(0)
data = TensorDataset(torch.randn(50, 4), torch.randn(50, 1))
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=3,
)  # fmt: skip
trainer.fit(Module(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=16))
# The sanity check makes two validation passes of its own.
evaluations = {"eval": [14, 182]}
print(json.dumps({"steps": trainer.global_step, "items": 150, "evaluations": evaluations}))
