"""The size of what a loader gives or a model is given, in a fraction of a microsecond."""

from __future__ import annotations

from typing import Any, NamedTuple

from overseer.measure.items import Sizer


class Given(NamedTuple):
    """What a model is called with.

    Attributes:
        items: How many; None when that can't be told.
        away: It lies on another device than the processor.
    """

    items: int | None
    away: bool


class Sizes:
    """Reads the first dimension of the first tensor; asks nothing of a device.

    Args:
        torch: The module.
    """

    def __init__(self, torch: Any) -> None:
        self._tensor = torch.Tensor
        self._sizer = Sizer()

    def of_batch(self, batch: Any) -> int | None:
        """Items in a loader's batch; None when it does not say."""
        sizer = self._sizer
        try:  # The way that led to a tensor in a batch of this kind before.
            lead = sizer.leads[type(batch)]
            tensor = batch if lead is None else lead(batch)
            if type(tensor) in sizer.tensors:
                return tensor.shape[0] or None
        except Exception:
            pass  # The long way says what it is.
        return sizer.size(batch).items

    def of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        """What a model is called with, judged by its first tensor."""
        tensor = self._tensor
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, tensor):
                # While a graph is traced a size may be a symbol, which must not be looked at.
                size = value.shape[0] if value.dim() else None
                return Given(size if type(size) is int else None, not value.is_cpu)
        for value in (*args, *kwargs.values()):
            if type(value) in (dict, list, tuple):
                return Given(self._sizer.size(value).items, False)
        return Given(None, False)
