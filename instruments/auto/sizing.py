"""The size of what a loader gives or a model is given, in a fraction of a microsecond."""

from __future__ import annotations

from typing import Any

from overseer.measure.items import Sizer


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

    def lead(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first tensor of a call's arguments; None when there is none on the first level."""
        tensor = self._tensor
        for value in args:
            if isinstance(value, tensor):
                return value
        for value in kwargs.values():
            if isinstance(value, tensor):
                return value
        return None

    def of_call(self, lead: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
        """Items in what a model is called with; None when that can't be told.

        Args:
            lead: What :meth:`lead` found.
            args: The arguments.
            kwargs: The named arguments.
        """
        if lead is not None:
            # While a graph is traced a size may be a symbol, which must not be looked at.
            size = lead.shape[0] if lead.dim() else None
            return size if type(size) is int else None
        for value in (*args, *kwargs.values()):
            if type(value) in (dict, list, tuple):
                return self._sizer.size(value).items
        return None
