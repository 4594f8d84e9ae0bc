"""What operators hold of tensors: values, and not the graphs that these hang on."""

from __future__ import annotations

import sys
from typing import Any

#: giving's operators that keep elements after they have passed, or compute with them.
HOLDING = (
    *("accum", "average", "average_and_variance", "bottom", "buffer", "buffer_toggle"),
    *("buffer_when", "buffer_with_count", "buffer_with_time", "buffer_with_time_or_count"),
    *("collect_between", "combine_latest", "count", "debounce", "delay", "delay_with_mapper"),
    *("distinct", "distinct_until_changed", "fork_join", "group_join", "join", "kmerge", "kscan"),
    *("last", "last_or_default", "norepeat", "pairwise", "publish_value", "reduce", "replay"),
    *("roll", "sample", "scan", "sequence_equal", "single", "single_or_default"),
    *("single_or_default_async", "skip_last", "skip_last_with_time", "slice", "sort", "sum"),
    *("take_last", "take_last_buffer", "take_last_with_time", "throttle_with_mapper"),
    *("throttle_with_timeout", "to_dict", "to_future", "to_iterable", "to_list", "to_set", "top"),
    *("variance", "with_latest_from", "zip", "zip_with_list"),
)
#: Containers of more than this are the script's own, and take too long to go through.
MANY = 64
#: How far down containers are gone through: an event, an output, and what that is made of.
DEEP = 4


def detached(value: Any, deep: int = DEEP) -> Any:
    """``value`` without the graph that it hangs on, or that tensors in it do.

    Dictionaries, tuples and lists are copied if something in them hangs on a graph. What hangs on
    none is the object itself, and so is what cannot be detached.
    """
    tensor = tensors()
    if tensor is None:
        return value
    try:
        return _detached(value, tensor, deep)
    except Exception:  # An odd object of the script's is nobody's failure.
        return value


def tensors() -> Any:
    """torch's class of tensors; None where the script has not imported torch."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


def _detached(value: Any, tensor: type, deep: int) -> Any:
    kind = type(value)  # Not isinstance: that asks the object, which may be a proxy of anything.
    if issubclass(kind, tensor):
        return value.detach() if value.requires_grad else value
    if kind is dict:
        inner = _inner(value.values(), deep)
        return value if inner is None else dict(zip(value, inner, strict=True))
    if kind is list or issubclass(kind, tuple):
        inner = _inner(value, deep)
        return value if inner is None else getattr(kind, "_make", kind)(inner)
    return value


def _inner(values: Any, deep: int) -> list[Any] | None:
    """The values detached; None if all are as they were."""
    if deep == 0 or len(values) > MANY:
        return None
    inner = [detached(each, deep - 1) for each in values]
    same = all(new is old for new, old in zip(inner, values, strict=True))
    return None if same else inner


class Least:
    """The least so far, by giving's rule; of tensors without waiting for their device."""

    def reduce(self, last: Any, new: Any) -> Any:
        """``new`` if ``last`` is greater."""
        return _chosen(last > new, new, last)


class Greatest:
    """The greatest so far, by giving's rule; of tensors without waiting for their device."""

    def reduce(self, last: Any, new: Any) -> Any:
        """``last`` if that is greater."""
        return _chosen(last > new, last, new)


def _chosen(greater: Any, then: Any, otherwise: Any) -> Any:
    if _alike(then, otherwise):
        # Not torch.minimum: a NaN wins there, and loses or is forgotten by giving's rule.
        return sys.modules["torch"].where(greater, then, otherwise)
    return then if greater else otherwise


def _alike(one: Any, other: Any) -> bool:
    """Whether both are tensors of one element that torch can choose from without converting."""
    tensor = tensors()
    if tensor is None or not (issubclass(type(one), tensor) and issubclass(type(other), tensor)):
        return False
    form = (other.dtype, other.device, other.layout, other.shape)
    return bool(one.numel() == 1 and (one.dtype, one.device, one.layout, one.shape) == form)
