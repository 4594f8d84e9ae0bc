"""Reads numbers, batch sizes and modules for the fallback, by the rules of ``_recorder.c``.

Tensors are recognised by exact type. Lists, dictionaries and their subclasses are read through the
base type, and some objects have their size as an attribute. Anything else is unknown: NaN.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from itertools import islice
from math import nan

from . import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEEPEST, _WIDEST = 4, 16
#: A longer list of tensors of one shape may be a list of samples.
_MOST_ALIKE = 4
_SCALARS = (float, int, str, bytes, type(None))
_STATED = ("num_graphs", "batch_size", "num_tokens")


class Readers:
    """Registered tensor types, and functions of torch.

    Attributes:
        ambiguous: Set if a dictionary's tensors differ in length and none has a majority.
        unread: Names of the first type of loss, and of batch, that cannot be read.
    """

    def __init__(self) -> None:
        self.set({}, {}, None, None)
        self.ambiguous = False
        self.unread = ["", ""]

    def set(
        self,
        types: dict[type, int],
        dtypes: dict[Any, str],
        grad: Any,
        hold: Any,
        tracing: Any = None,
        modes: Any = None,
        without_modes: Any = nullcontext,
    ) -> None:
        """Implements the recorder's ``tensors``."""
        self.types, self.dtypes, self.grad_enabled, self.hold = types, dtypes, grad, hold
        self._tracing, self._modes, self._without = tracing, modes, without_modes

    def note(self, which: int, value: object) -> None:
        """Keep the type's name of the first unreadable loss (0) or batch (1)."""
        if value is not None:
            self.unread[which] = self.unread[which] or type(value).__name__

    def harmless(self) -> Any:
        """Context for reading tensors; None while torch traces, which would record the reads."""
        if self._tracing is None:
            return nullcontext()
        if self._tracing() is not None:
            return None
        return self._without() if self._modes() else nullcontext()


readers = Readers()


def _attribute(value: object, name: str) -> Any:
    """Get an attribute without calling the class's ``__getattr__``; None if missing."""
    try:
        return object.__getattribute__(value, name)
    except Exception:
        return None


def read_number(value: Any, site: int = 0, start: int = 0) -> tuple[float, int]:
    """Read a number; flags are LATER if it is on a device, FAILED if it cannot be read."""
    kind = type(value)
    if isinstance(value, (float, int)):
        try:
            return float.__float__(value) if isinstance(value, float) else int.__float__(value), 0
        except OverflowError:
            return nan, k.FAILED
    if readers.types.get(kind):
        return _tensor_number(value, site, start)
    if isinstance(value, (tuple, list)) and kind.__len__(value) == 1:
        return read_number(next(_members(value)), site, start)
    if kind.__module__ == "numpy":
        try:
            return float(value), 0
        except Exception:
            return nan, k.FAILED
    return nan, k.FAILED


def _tensor_number(value: Any, site: int, start: int) -> tuple[float, int]:
    try:
        context = readers.harmless() if readers.types[type(value)] == 1 else nullcontext()
        if context is None:
            return nan, k.FAILED
        with context:
            if any(n != 1 for n in value.shape):
                return nan, k.FAILED
            if readers.types[type(value)] == 1 and value.is_cpu:
                known = value.dtype in readers.dtypes and value.data_ptr()
                return (float(value.item()), 0) if known else (nan, k.FAILED)
            later = readers.hold is not None and start and readers.hold(value, site, start) is True
        return nan, k.LATER if later else k.FAILED
    except Exception:
        return nan, k.FAILED


def _members(value: Any) -> Any:
    base = tuple if isinstance(value, tuple) else list
    return islice(base.__iter__(value), _WIDEST)


def _shape(value: Any) -> Any:
    context = readers.harmless() if readers.types[type(value)] == 1 else nullcontext()
    if context is None:
        return None
    with context:
        return _attribute(value, "shape")


def _rows(value: Any) -> tuple[float, int]:
    """A tensor's first dimension, and its number of dimensions."""
    shape = _shape(value)
    if isinstance(shape, tuple) and shape and type(shape[0]) is int:
        return float(shape[0]), len(shape)
    return nan, 0


def _stated(value: object) -> float:
    for name in _STATED:
        found = _attribute(value, name)
        if isinstance(found, tuple) and found:
            found = found[0]
        if type(found) is int:
            return float(found)
    return nan


def _mapping(values: Any, deep: int) -> float:
    """Length of the majority of a dictionary's tensors; without tensors, of its first member."""
    members = list(islice(values, _WIDEST))
    found = [_rows(one)[0] for one in members if type(one) in readers.types]
    sizes = [size for size in found if size == size]
    most = next((size for size in sizes if 2 * sizes.count(size) > len(sizes)), nan)
    readers.ambiguous |= bool(sizes) and most != most
    return most if sizes else _first(members, deep)


def _first(members: Any, deep: int) -> float:
    for member in members:
        size = nan if isinstance(member, _SCALARS) else length(member, deep + 1)
        if size == size:
            return size
    return nan


def _picture(value: object) -> bool:
    """True if a tensor may be a single image: channels, then two more dimensions."""
    size, dimensions = _rows(value)
    return dimensions == 3 and size in (1.0, 3.0, 4.0)


def _samples(rows: list[Any]) -> int:
    """Classify a list of rows: 1 for samples, 2 for samples or columns, 0 for neither.

    Rows are samples if each mixes types of values, or if they differ in length.
    """
    if not rows or not all(isinstance(row, (tuple, list)) for row in rows):
        return 0
    values = [list(_members(row)) for row in rows]
    mixed = all(
        any(
            type(one) is not type(row[0]) and not (_is_number(one) and _is_number(row[0]))
            for one in row
        )
        for row in values
    )
    scalars = all(isinstance(one, _SCALARS) for row in values for one in row)
    ragged = len({len(row) for row in rows}) > 1
    if mixed or (ragged and scalars):
        return 1
    return 2 if scalars and len(rows) > 1 else 0


def _is_number(value: object) -> bool:
    return isinstance(value, (float, int))


def _sequence(value: Any, deep: int) -> float:
    n = tuple.__len__(value) if isinstance(value, tuple) else list.__len__(value)
    looked = list(_members(value))
    scalars = sum(isinstance(one, _SCALARS) for one in looked)
    mappings = sum(isinstance(one, dict) for one in looked)
    tensors = [one for one in looked if type(one) in readers.types]
    sizes = [size for size in (_rows(one)[0] for one in tensors) if size == size]
    if looked and (mappings == len(looked) or (scalars == len(looked) and not deep)):
        return nan if mappings == n == 1 and not deep else float(n)  # As DALI's, which is a batch.
    if sizes:
        # Images, or many tensors of one shape, may be a batch or a list of samples: unknown.
        pictures = sum(map(_picture, tensors)) == len(looked) and (deep or n > 3)
        alike = len(sizes) == len(looked) and n > _MOST_ALIKE and len({*map(_shape, tensors)}) == 1
        return nan if pictures or alike or len(set(sizes)) > 1 else sizes[0]
    rows = _samples(looked)
    if rows:
        return float(n) if rows == 1 else nan
    size = _first(looked, deep)
    return float(n) if size != size and looked and scalars == len(looked) else size


def length(value: Any, deep: int = 0) -> float:
    """Number of items in a batch; NaN if unknown."""
    if deep > _DEEPEST or isinstance(value, _SCALARS):
        return nan
    if type(value) in readers.types:
        return _rows(value)[0]
    if type(value) is tuple or isinstance(value, list):
        return _sequence(value, deep)
    if isinstance(value, dict):
        return _mapping(dict.values(value), deep)
    size = _stated(value)
    if size == size:
        return size
    if isinstance(value, tuple):
        return _sequence(value, deep)
    space = _attribute(value, "__dict__")  # `value.data` may be a property, which runs code.
    data = space.get("data") if type(space) is dict else None
    return _mapping(dict.values(data), deep) if isinstance(data, dict) else nan


def model_rows(value: Any) -> float:
    """Rows of a model's input; NaN for a vector, which may be a single sample."""
    if type(value) not in readers.types:
        return length(value)
    size, dimensions = _rows(value)
    return size if dimensions > 1 else nan


def bytes_of(value: Any, deep: int = 0) -> float:
    """Bytes of a tensor, or of nested lists of tensors; NaN if unknown."""
    if readers.types.get(type(value)) == 1:
        with suppress(Exception):
            context = readers.harmless()
            if context is not None:
                with context:
                    return float(value.numel() * value.element_size())
        return nan
    if deep > 2 or not isinstance(value, (tuple, list)):
        return nan
    known = [n for n in (bytes_of(one, deep + 1) for one in islice(value, 4096)) if n == n]
    return sum(known) if known else nan


def module_flags(module: Any) -> int:
    """Flags of a module: TRAINING, GRAD, and MODEL if it has parameters or submodules."""
    flags = k.TRAINING if _attribute(module, "training") is True else 0
    if readers.grad_enabled is not None and readers.grad_enabled() is True:
        flags |= k.GRAD
    if any(_attribute(module, name) for name in ("_parameters", "_modules")):
        flags |= k.MODEL
    return flags
