"""Values on the bus, for operators: tensors without their graphs, extremes of tensors."""

from __future__ import annotations

import sys
from operator import is_

from ..context import Own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Containers of more than this are the script's own, and take too long to go through.
MAX_LENGTH = 64
#: How far down containers are gone through: an event, an output, and what that is made of.
MAX_NESTING = 4


def _tensor() -> Any:
    """torch's class of tensors; None where the script has not imported torch."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


def detached(value: Any, deep: int = MAX_NESTING) -> Any:
    """``value`` without the graph that it, or a tensor in it, hangs on.

    Dictionaries, tuples and lists are copied if something in them hangs on a graph; anything else
    is the object itself.
    """
    tensor = _tensor()
    try:
        return value if tensor is None else _detached(value, tensor, deep)
    except Exception:  # An odd object of the script's is nobody's failure.
        return value


def _detached(value: Any, tensor: type, deep: int) -> Any:
    kind = type(value)  # Not isinstance: that asks the object, which may be a proxy of anything.
    if issubclass(kind, tensor):
        return value.detach() if value.requires_grad else value
    mapping = kind is dict or kind is Own
    if (
        not (mapping or kind is list or issubclass(kind, tuple))
        or deep == 0
        or len(value) > MAX_LENGTH
    ):
        return value
    old = [*value.values()] if mapping else value
    new = [detached(each, deep - 1) for each in old]
    if all(map(is_, new, old)):
        return value
    return kind(zip(value, new, strict=True)) if mapping else getattr(kind, "_make", kind)(new)


def least(last: Any, new: Any) -> Any:
    """The least so far, by giving's rule; of tensors without waiting for their device."""
    return _chosen(last > new, new, last)


def greatest(last: Any, new: Any) -> Any:
    """The greatest so far, by giving's rule; of tensors without waiting for their device."""
    return _chosen(last > new, last, new)


def _chosen(greater: Any, then: Any, otherwise: Any) -> Any:
    tensor = _tensor()
    if tensor is not None and _alike(then, otherwise, tensor):
        # Not torch.minimum: a NaN wins there, and loses or is forgotten by giving's rule.
        return sys.modules["torch"].where(greater, then, otherwise)
    return then if greater else otherwise


def _alike(one: Any, other: Any, tensor: type) -> bool:
    """Whether both are tensors of one element that torch can choose from without converting."""
    if not (issubclass(type(one), tensor) and issubclass(type(other), tensor)):
        return False
    form = (other.dtype, other.device, other.layout, other.shape)
    return bool(one.numel() == 1 and (one.dtype, one.device, one.layout, one.shape) == form)
