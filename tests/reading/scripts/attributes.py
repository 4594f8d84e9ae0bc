"""Model, optimizer and loader made in __init__, typed, a match statement; 12 batches of 8."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    lr: float = 0.01
    batch_size: int = 8
    mode: str = "train"


class Runner:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.model: nn.Module = nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg.lr)
        data = TensorDataset(torch.randn(96, 8), torch.randn(96, 1))
        self.train_loader: DataLoader = DataLoader(data, batch_size=cfg.batch_size)

    def update(self, batch: list[Tensor]) -> Tensor:
        x, y = batch
        loss: Tensor = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self) -> None:
        match self.cfg.mode:
            case "train":
                for i, batch in enumerate(self.train_loader):  # noqa: B007
                    self.update(batch)
                self.validate()
            case other:
                raise ValueError(other)

    @torch.no_grad()
    def validate(self) -> Tensor:
        return torch.stack([self.model(x).mean() for x, _ in self.train_loader]).mean()


Runner(Config()).run()
