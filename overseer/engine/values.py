"""Values for operators: tensors detached from their graphs, and extremes of tensors."""

from __future__ import annotations

import sys
from operator import is_

from ..context import Own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Larger containers are the script's own; traversing them would take too long.
MAX_LENGTH = 64
#: Nesting levels of containers to traverse: an event, an output, and its parts.
MAX_NESTING = 4


def _tensor() -> Any:
    """torch's tensor class; None unless the script has imported torch."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


def detached(value: Any, deep: int = MAX_NESTING) -> Any:
    """Return ``value`` without the autograd graphs of the tensors in it.

    Dictionaries, tuples and lists are copied if they contain a tensor with a graph; other objects
    are returned as they are.
    """
    tensor = _tensor()
    try:
        return value if tensor is None else _detached(value, tensor, deep)
    except Exception:  # An unusual object of the script's must not cause a failure.
        return value


def _detached(value: Any, tensor: type, deep: int) -> Any:
    kind = type(value)  # Not isinstance, which asks the object: it may be a proxy.
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
    """The minimum so far, by giving's rule; does not wait for a tensor's device."""
    return _chosen(last > new, new, last)


def greatest(last: Any, new: Any) -> Any:
    """The maximum so far, by giving's rule; does not wait for a tensor's device."""
    return _chosen(last > new, last, new)


def _chosen(greater: Any, then: Any, otherwise: Any) -> Any:
    tensor = _tensor()
    if tensor is not None and _alike(then, otherwise, tensor):
        # Not torch.minimum: there a NaN wins, by giving's rule it loses or is forgotten.
        return sys.modules["torch"].where(greater, then, otherwise)
    return then if greater else otherwise


def _alike(one: Any, other: Any, tensor: type) -> bool:
    """Test whether torch can choose between the two without a conversion."""
    if not (issubclass(type(one), tensor) and issubclass(type(other), tensor)):
        return False
    form = (other.dtype, other.device, other.layout, other.shape)
    return bool(one.numel() == 1 and (one.dtype, one.device, one.layout, one.shape) == form)
