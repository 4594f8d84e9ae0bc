"""What many programs share: a step, an evaluation, batches, a model that is as small as can be."""

import torch
import truth
from torch.utils.data import DataLoader, TensorDataset


class Truth(truth.Truth):
    """Makes the steps and the evaluations that it counts."""

    def step(self, items, loss=None, optimizer=None):
        """A step of ``items``, which an optimizer makes here, or that has ended."""
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        super().step(items, loss)

    def evaluate(self, model, batches):
        """An evaluation over a loader, or tensors; then the model is in training mode again."""
        model.eval()
        with torch.no_grad():
            for batch in batches:
                x = batch if isinstance(batch, torch.Tensor) else batch[0]
                model(x)
                self.evaluated(len(x))
        model.train()


def batches(n, size, values=0, classes=0, shuffle=False):
    """A loader of ``n`` vectors of four; with so many values beside each, or one of the classes."""
    tensors = [torch.randn(n, 4)]
    tensors += [torch.randn(n, values)] if values else []
    tensors += [torch.randint(classes, (n,))] if classes else []
    return DataLoader(TensorDataset(*tensors), batch_size=size, shuffle=shuffle)


def linear(lr=0.01):
    """A model with one layer, and its optimizer."""
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=lr)
