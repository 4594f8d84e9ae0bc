"""Reading numbers, sizes and modules for the fallback, by the rules of ``_recorder.c``.

Tensors are known by their exact type; lists, dictionaries and their subclasses are read through the
base type; sizes that an object states are attributes. Everything else is unknown: NaN.
"""

from __future__ import annotations

from itertools import islice

from . import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAN = float("nan")
DEEP, WIDE = 4, 16
_SCALARS = (float, int, str, bytes, type(None))
_STATED = ("num_graphs", "batch_size", "num_tokens")


class Readers:
    """Which exact types are tensors, and how to ask torch."""

    def __init__(self) -> None:
        self.set({}, {}, None, None)

    def set(self, types: dict[type, int], dtypes: dict[Any, str], grad: Any, hold: Any) -> None:
        """See ``tensors`` of the recorder."""
        self.types, self.dtypes, self.grad_enabled, self.hold = types, dtypes, grad, hold


readers = Readers()


def _attribute(value: object, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def read_number(value: Any, site: int = 0, start: int = 0) -> tuple[float, int]:
    """A number, and the flags of its event; a device's is held, and comes later."""
    kind = type(value)
    if isinstance(value, (float, int)):
        try:
            return float.__float__(value) if isinstance(value, float) else int.__float__(value), 0
        except OverflowError:
            return NAN, 0
    if readers.types.get(kind):
        return _tensor_number(value, site, start)
    if isinstance(value, (tuple, list)) and kind.__len__(value) == 1:
        return read_number(next(_members(value)), site, start)
    if kind.__module__ == "numpy":
        try:
            return float(value), 0
        except Exception:
            return NAN, 0
    return NAN, 0


def _tensor_number(value: Any, site: int, start: int) -> tuple[float, int]:
    try:
        if any(n != 1 for n in value.shape):
            return NAN, 0
        if readers.types[type(value)] == 1 and value.is_cpu:
            known = value.dtype in readers.dtypes and value.data_ptr()
            return (float(value.item()) if known else NAN), 0
        later = readers.hold is not None and start and readers.hold(value, site, start) is True
        return NAN, k.LATER if later else 0
    except Exception:
        return NAN, 0


def _members(value: Any) -> Any:
    base = tuple if isinstance(value, tuple) else list
    return islice(base.__iter__(value), WIDE)


def _rows(value: Any) -> tuple[float, int]:
    """The first dimension of a tensor, and how many it has."""
    shape = _attribute(value, "shape")
    if isinstance(shape, tuple) and shape and type(shape[0]) is int:
        return float(shape[0]), len(shape)
    return NAN, 0


def _stated(value: object) -> float:
    for name in _STATED:
        found = _attribute(value, name)
        if isinstance(found, tuple) and found:
            found = found[0]
        if type(found) is int:
            return float(found)
    return NAN


def _first(members: Any, deep: int) -> float:
    for member in members:
        size = NAN if isinstance(member, _SCALARS) else length(member, deep + 1)
        if size == size:
            return size
    return NAN


def _picture(value: object) -> bool:
    """Whether a tensor may be one picture: channels first, then two more dimensions."""
    size, dimensions = _rows(value)
    return dimensions == 3 and size in (1.0, 3.0, 4.0)


def _sequence(value: Any, deep: int) -> float:
    n = tuple.__len__(value) if isinstance(value, tuple) else list.__len__(value)
    looked = list(_members(value))
    scalars = sum(isinstance(one, _SCALARS) for one in looked)
    mappings = sum(isinstance(one, dict) for one in looked)
    tensors = [one for one in looked if type(one) in readers.types]
    sizes = [size for size in (_rows(one)[0] for one in tensors) if size == size]
    if looked and (mappings == len(looked) or (scalars == len(looked) and not deep)):
        return NAN if mappings == n == 1 and not deep else float(n)  # As DALI's, which is a batch.
    if sizes:
        # Pictures side by side look like what is stacked: unknown.
        pictures = sum(map(_picture, tensors)) == len(looked) and (deep or n > 3)
        return NAN if pictures or len(set(sizes)) > 1 else sizes[0]
    size = _first(looked, deep)
    return float(n) if size != size and looked and scalars == len(looked) else size


def length(value: Any, deep: int = 0) -> float:
    """How many items a batch has; NaN if that is unknown."""
    if deep > DEEP or isinstance(value, _SCALARS):
        return NAN
    if type(value) in readers.types:
        return _rows(value)[0]
    if type(value) is tuple or isinstance(value, list):
        return _sequence(value, deep)
    if isinstance(value, dict):
        return _first(islice(dict.values(value), WIDE), deep)
    size = _stated(value)
    if size == size:
        return size
    if isinstance(value, tuple):
        return _sequence(value, deep)
    data = _attribute(value, "data")
    return _first(islice(dict.values(data), WIDE), deep) if isinstance(data, dict) else NAN


def model_rows(value: Any) -> float:
    """Rows of what a model is given; one vector may be one sample, so that is not known."""
    if type(value) not in readers.types:
        return length(value)
    size, dimensions = _rows(value)
    return size if dimensions > 1 else NAN


def module_flags(module: Any) -> int:
    """Whether a module trains, gradients are on, and it has parameters or modules."""
    flags = k.TRAINING if _attribute(module, "training") is True else 0
    if readers.grad_enabled is not None and readers.grad_enabled() is True:
        flags |= k.GRAD
    if any(_attribute(module, name) for name in ("_parameters", "_modules")):
        flags |= k.MODEL
    return flags
