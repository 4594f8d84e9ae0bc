"""Pictures of different sizes and what is in them: lists, and a model that returns its losses."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from training import Truth

truth = Truth(42)
pictures = [
    (torch.rand(3, 6 + i % 4, 7), {"boxes": torch.rand(1 + i % 3, 4), "id": i}) for i in range(26)
]


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.box = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, images, targets=None):
        found = [self.box(self.backbone(image[None]).mean((2, 3))) for image in images]
        if targets is None:
            return [{"boxes": one} for one in found]
        pairs = zip(found, targets, strict=True)
        losses = [(one - target["boxes"]).pow(2).mean() for one, target in pairs]
        return {"loss_box": torch.stack(losses).mean(), "loss_size": found[0].abs().mean()}


def collate(batch):
    return tuple(zip(*batch, strict=True))


model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
data_loader = DataLoader(pictures, batch_size=4, shuffle=True, collate_fn=collate)
test_loader = DataLoader(pictures[:9], batch_size=2, collate_fn=collate)
for _ in range(3):
    model.train()
    for images, targets in data_loader:
        loss_dict = model(list(images), [dict(t) for t in targets])
        losses = sum(loss_dict.values())
        truth.step(len(images), losses, optimizer)
    model.eval()
    with torch.inference_mode():
        for images, _ in test_loader:
            model(list(images))
            truth.evaluated(len(images))
truth.tell()
