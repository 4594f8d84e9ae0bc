"""Loaders: each wait for a batch is a span, and so is each new beginning."""

from __future__ import annotations

from overseer.recorder import sites as k

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def place(places: Places, dataloader: Any) -> None:
    """Record PyTorch's loaders.

    Args:
        places: Where callables are placed.
        dataloader: ``torch.utils.data.dataloader``.
    """
    places.around(dataloader._BaseDataLoaderIter, "__next__", k.LOADING, k.RESULT, 0)
    places.around(dataloader.DataLoader, "__iter__", k.ITERATE, k.IDENTITY, 0)
