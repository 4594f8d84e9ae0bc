"""Hooks in this process, and what they record."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d
import torch.utils.data.dataloader

from instruments.hooks import distributed, pytorch
from instruments.places import Places
from overseer.model.fold import Fold
from overseer.model.steps import Step
from overseer.recorder import log, recorder, table
from overseer.recorder.values import values

#: Where hooks may be: classes and modules, with the names in them.
OWNERS: list[tuple[Any, str]] = [
    (torch.nn.Module, "__call__"), (torch.autograd, "backward"),
    (torch.amp.GradScaler, "scale"), (torch.amp.GradScaler, "step"),
    (torch.serialization, "save"), (torch, "save"),
    (torch.optim.Optimizer, "__init__"), (torch.optim.Optimizer, "zero_grad"),
    (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
    (torch.utils.data.dataloader.DataLoader, "__iter__"),
]  # fmt: skip


def tables() -> dict[str, int]:
    """How many global hooks torch has."""
    optimizer = sys.modules["torch.optim.optimizer"]
    return {
        name: len(value)
        for module in (torch.nn.modules.module, optimizer)
        for name, value in vars(module).items()
        if name.startswith("_global_") and hasattr(value, "__len__")
    }


class Hooked:
    """Hooks that are placed, and what they record."""

    def __init__(self) -> None:
        recorder.open(1 << 14, 64)
        self.places = Places()
        self._at = 0
        values.know(torch)
        # Where a test before has imported Dynamo, models would be left alone.
        dynamo = sys.modules.pop("torch._dynamo", None)
        try:
            assert not pytorch.models(self.places, torch)
        finally:
            if dynamo is not None:
                sys.modules["torch._dynamo"] = dynamo
        pytorch.gradients(self.places, torch)
        pytorch.optimizers(self.places, sys.modules["torch.optim.optimizer"])
        pytorch.loaders(self.places, torch.utils.data.dataloader)
        distributed.reducers(self.places, torch)
        distributed.collectives(self.places, c10d)

    def data(self) -> bytes:
        """What came since the last call."""
        data, self._at, lost = recorder.drain(0, self._at)
        assert not lost
        return bytes(data)

    def events(self) -> list[tuple[int, log.Event]]:
        """The same, event by event, with their kinds."""
        return [(int(table.rows[e.site]["kind"]), e) for e in log.events(self.data())]

    def folded(self) -> tuple[Fold, list[Step]]:
        """What the fold makes of it."""
        steps: list[Step] = []
        fold = Fold(table.rows, steps.append)
        fold.feed(self.data())
        fold.finish()
        return fold, steps


def standing() -> tuple[list[Any], dict[str, int]]:
    """What stands where hooks may be."""
    return [vars(owner)[name] for owner, name in OWNERS], tables()
