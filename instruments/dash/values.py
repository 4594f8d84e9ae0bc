"""What is kept of a given value: never the object itself, only what can be shown of it.

A dashboard that held on to values would hold on to autograd graphs and device memory. It must not
wait for a device either, nor call CUDA from its own thread: that would order itself behind the
wrong stream, and it would break a CUDA graph that the script is capturing at that moment.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from instruments.dash.cells import clean
from instruments.dash.figures import number

Kept = str | int | float | bool | complex | None

#: Immutable and cheap: stored as they come.
PLAIN = frozenset({int, float, bool, str, complex, type(None)})

_ARRAYS = ("torch", "numpy", "jax", "jaxlib", "cupy")
_NAMED = ("pathlib", "datetime", "decimal", "fractions", "uuid")
_SHORT = 6
#: As torch itself abbreviates them when it prints graphs.
_DTYPES = (("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i"))


class DeviceScalar:
    """The value of a one-element tensor on a device, copied without waiting.

    The copy is queued on the script's own stream, in the script's own thread, into pinned memory;
    the reader only looks at that memory and sees the mark until the copy has arrived. Devices
    without such copies (MPS) are waited for: once a frame, never at each event.
    """

    _MARK = float("-inf")

    def __init__(self) -> None:
        self._cell: Any = None

    def copy(self, tensor: Any) -> bool:
        """Queue a copy of ``tensor``; False while a CUDA graph is being captured."""
        torch = sys.modules["torch"]
        if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
            return False
        queued = tensor.is_cuda or tensor.is_xpu
        dtype = tensor.dtype if tensor.dtype.is_floating_point else torch.float64
        # A cell made in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            if self._cell is None or self._cell.dtype != dtype:
                self._cell = torch.empty((), dtype=dtype, device="cpu", pin_memory=queued)
            self._cell.fill_(self._MARK)
            self._cell.copy_(tensor.detach().reshape(()), non_blocking=queued)
        return True

    def read(self) -> float | None:
        """The copied value, or None when it has not arrived yet."""
        value = self._MARK if self._cell is None else float(self._cell)
        return None if value == self._MARK else value


def is_tensor(kind: type) -> bool:
    """Whether values of ``kind`` are plain torch tensors.

    Subclasses are left alone: reading a distributed tensor's value is a collective operation.
    """
    return kind.__name__ == "Tensor" and kind.__module__ == "torch"


def describe(value: object) -> Kept:
    """What to show of ``value``, without calling code of the script's own.

    A ``__repr__`` may be slow, long or have effects, so an unknown object is named by its type.
    """
    kind = type(value)
    room, _, _ = kind.__module__.partition(".")
    if kind in PLAIN:
        return value  # type: ignore[return-value]
    if room in _ARRAYS and hasattr(value, "shape"):
        return _array(value)
    if kind in (list, tuple):
        return _sequence(value)  # type: ignore[arg-type]
    if kind is dict:
        return f"dict of {len(value)}"  # type: ignore[arg-type]
    return str(value) if kind.__module__ == "torch" or room in _NAMED else kind.__name__


def _array(value: Any) -> Kept:
    if not value.shape and type(value).__module__ == "numpy":
        scalar = value.tolist()
        return scalar if type(scalar) in PLAIN else str(scalar)
    return f"{_dtype(value)}[{', '.join(map(str, value.shape))}]"


def _dtype(value: Any) -> str:
    name = str(getattr(value, "dtype", "")).rpartition(".")[2]
    for long, short in _DTYPES:
        if name.startswith(long):
            return name.replace(long, short, 1)
    return name


def _sequence(value: list[object] | tuple[object, ...]) -> str:
    if len(value) > _SHORT:
        return f"{type(value).__name__} of {len(value)}"
    inner = ", ".join(str(describe(item)) for item in value)
    return f"[{inner}]" if isinstance(value, list) else f"({inner})"


def as_number(kept: object) -> float | None:
    """A kept value as a number, or None when it is none."""
    if isinstance(kept, (int, float)):
        return float(kept)
    if isinstance(kept, DeviceScalar):
        return kept.read()
    if is_tensor(type(kept)):
        return _item(kept)
    return None


def _item(tensor: Any) -> float | None:
    try:
        return float(tensor.item())
    except Exception:  # Meta, fake and functorch tensors have no value to read.
        return None


def as_text(kept: object) -> str:
    """A kept value in a few words."""
    if isinstance(kept, bool) or kept is None or isinstance(kept, complex):
        return str(kept)
    if isinstance(kept, str):
        return clean(kept[:200])
    value = kept if isinstance(kept, int) else as_number(kept)
    return "…" if value is None else number(value)


def pair(value: object) -> tuple[float, float] | None:
    """``(a, b)`` of two finite numbers, as ``progress`` and memory come; None when it is not."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    numbers = [as_number(item) for item in value]
    first, second = numbers
    if first is None or second is None or not (math.isfinite(first) and math.isfinite(second)):
        return None
    return first, second


def mapping(value: object) -> Mapping[object, object]:
    """``value`` if it is a mapping, else an empty one: a malformed monitor shows nothing."""
    return value if isinstance(value, Mapping) else {}
