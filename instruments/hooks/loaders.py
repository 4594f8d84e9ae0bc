"""Loaders: each wait for a batch is a span, and so is each new beginning."""

from __future__ import annotations

from overseer.recorder import sites as k

from .place import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Frameworks' own loaders: the module, the class, and the method that returns a batch.
OTHERS = {
    "nvidia.dali.plugin.pytorch": ("DALIGenericIterator", "__next__"),
    "nvidia.dali.plugin.base_iterator": ("_DaliBaseIterator", "__next__"),
    "mosaicml.streaming": ("StreamingDataLoader", "__next__"),
    "torchdata.stateful_dataloader.stateful_dataloader": ("_BaseDataLoaderIter", "__next__"),
}


def place(places: Places, dataloader: Any) -> None:
    """Record PyTorch's loaders.

    Args:
        places: Where callables are placed.
        dataloader: ``torch.utils.data.dataloader``.
    """
    places.around(dataloader._BaseDataLoaderIter, "__next__", k.LOADING, k.RESULT, 0)
    places.around(dataloader.DataLoader, "__iter__", k.ITERATE, k.IDENTITY, 0)


def place_other(places: Places, module: Any) -> None:
    """Record a framework's own loader, if the module has it."""
    name, method = OTHERS[module.__name__]
    kind = getattr(module, name, None)
    if kind is not None:
        places.around(kind, method, k.LOADING, k.RESULT, 0)
