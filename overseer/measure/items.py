"""How many items a batch holds: any library's tensors, containers, mappings and dataclasses.

No array library is imported and nothing is asked of a device: only shapes and lengths are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

#: Keys under which batches state their own number of tokens (fairseq, Megatron, torchtune).
TOKEN_KEYS = ("num_tokens", "ntokens", "n_tokens")
#: Attributes that state a batch's size: torch_geometric, DGL and neighbour loaders, tensordict.
SIZE_ATTRIBUTES = ("num_graphs", "batch_sizes", "batch_size")
_SCALARS = (str, bytes, bytearray, int, float, complex, type(None))
_LISTS, _PLAIN = frozenset({list, tuple}), frozenset(_SCALARS) | {bool}
#: Where so many entries are plain, the others are.
_LOOKED_AT = 64
_DEEP = 5
#: No batch holds more; and the sum over a run stays what 64 bits hold.
MOST = 10**12
_KINDS = 64
#: More tensors than this in a batch are no longer inputs, targets and the like.
_FIELDS = 5


class Size(NamedTuple):
    """What a batch says about itself; ``reason`` tells why ``items`` is not known.

    Attributes:
        items: Its size along the first dimension, or None.
        tokens: Tokens in it, padding included, or None.
        stated: The batch itself states ``tokens``, they were not derived from ``input_ids``.
        reason: Why ``items`` is None.
    """

    items: int | None = None
    tokens: int | None = None
    stated: bool = False
    reason: str | None = None


class Sizer:
    """Sizes batches, and remembers the way to the tensor that gives a kind its size.

    Args:
        function: Computes the size instead; what it raises becomes a reason.

    Attributes:
        leads: For each kind of batch how to get at that tensor; None when it is one itself.
        tensors: Kinds of tensor that have a first dimension.
    """

    def __init__(self, function: Callable[[Any], Any] | None = None) -> None:
        self._function = function
        self.tensors: set[type] = set()
        self.leads: dict[type, Callable[[Any], Any] | None] = {}
        self._no_leads: set[type] = set()

    def size(self, batch: Any) -> Size:
        """All that ``batch`` says about its size; never an exception."""
        if self._function is not None:
            return _applied(self._function, batch)
        if type(batch) in _LISTS and batch and _PLAIN.issuperset(map(type, batch[:_LOOKED_AT])):
            return Size(len(batch))  # As below, at a tenth of the cost.
        try:
            found = size_of(batch)
            tokens, stated = _tokens(batch)
            if not isinstance(found, int):
                return Size(None, tokens, stated, found)
            if not stated and len(self.leads) < _KINDS:
                self._remember(batch)
            return Size(found, tokens, stated)
        except Exception as exc:  # Any library's objects may raise anything when looked at.
            return Size(reason=f"{type(batch).__name__}: {type(exc).__name__}: {exc}")

    def _remember(self, batch: Any) -> None:
        """Keep the way to the tensor that gives this kind of batch its size."""
        tensor, lead = _lead(batch)
        if tensor is None and len(self._no_leads) < _KINDS:
            self._no_leads.add(type(batch))  # A list of samples; a short one may look different.
        if type(batch) in self._no_leads:
            return
        if _shape(tensor) is not None and _stated(tensor) is None and _stated(batch) is None:
            self.leads[type(batch)] = lead
            self.tensors.add(type(tensor))


EMPTY = "the batch is empty"


def batch_size(batch: Any, function: Callable[[Any], Any] | None = None) -> int | None:
    """Items in ``batch``, or None when that can't be told; :class:`Sizer` also says why."""
    return Sizer(function).size(batch).items


def as_count(value: Any) -> int | str:
    """``value`` as a number of items, or the reason why it is none; never asks a device."""
    device = str(getattr(value, "device", "cpu"))
    if "cpu" not in device.lower():
        return f"it lies on {device}, and reading it there would make the script wait"
    try:
        count = int(value)
    except Exception:
        return f"{type(value).__name__} is not a number"
    if count != value:
        return f"{value!r} is not a whole number"
    if count > MOST:
        return f"{count:.3g} is more than a batch can hold" if count < 1e300 else "it is too large"
    return count if count >= 0 else f"{count} is negative"


def size_of(batch: Any, depth: int = 0) -> int | str:
    """First dimension of the first tensor in ``batch``, else its length, else the reason."""
    if isinstance(batch, _SCALARS):
        return f"{type(batch).__name__} is not a batch: give the number as batch_size"
    if depth > _DEEP:
        return "it is nested too deeply"
    for look in (_stated, _leading, _mapped, _listed, _fields):
        found = look(batch, depth)
        if found is not None:
            return found if found != 0 else EMPTY
    return _length(batch)


def _lead(batch: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """The tensor that sizes ``batch`` and the way to it, when it lies on the first level."""
    if _shape(batch) is not None:
        return batch, None
    ways: list[Callable[[Any], Any]] = []
    if isinstance(batch, list | tuple):
        ways = [] if _samples(batch) else [itemgetter(0)]
    elif hasattr(batch, "keys"):
        ways = [itemgetter(key) for key in list(batch.keys())]
    else:
        ways = [attrgetter(name) for name in getattr(type(batch), "__dataclass_fields__", ())]
    for way in ways:
        value = way(batch)
        if _has_tensor(value, 0):
            return value, way
    return None, None


def _shape(value: Any) -> Any:
    """The shape of anything that looks like an array, None for all else."""
    try:
        shape = getattr(value, "shape", None)
    except Exception:  # Nested tensors have a length, but no shape.
        return None
    if shape is None or isinstance(value, type) or not hasattr(type(shape), "__len__"):
        return None
    return shape


def _leading(batch: Any, depth: int = 0) -> int | str | None:
    shape = _shape(batch)
    if shape is None:
        return None
    return int(shape[0]) if len(shape) else "a tensor without dimensions has no batch dimension"


def _stated(batch: Any, depth: int = 0) -> int | None:
    """The size that graph batches, packed sequences and tensor dictionaries state themselves."""
    for name in SIZE_ATTRIBUTES:
        value: Any = getattr(batch, name, None) if not isinstance(batch, Mapping) else None
        if type(value) is int:
            return value
        shaped = _shape(value) is not None or type(value).__name__ == "Size"
        if shaped and len(value) and "cpu" in str(getattr(value, "device", "cpu")):
            return int(value[0])  # PackedSequence keeps its batch_sizes on the CPU.
    return None


def _mapped(batch: Any, depth: int) -> int | str | None:
    if isinstance(batch, Mapping) or (hasattr(batch, "keys") and hasattr(batch, "__getitem__")):
        return _first(iter(batch[key] for key in list(batch.keys())), depth)
    return None


def _fields(batch: Any, depth: int) -> int | str | None:
    names = getattr(type(batch), "__dataclass_fields__", None)
    return _first(iter(getattr(batch, name) for name in names), depth) if names else None


def _listed(batch: Any, depth: int) -> int | str | None:
    if not isinstance(batch, list | tuple):
        return None
    if not batch:
        return EMPTY
    if all(isinstance(each, _SCALARS) for each in batch[:_LOOKED_AT]) or _samples(batch):
        return len(batch)
    if _unstacked(batch):
        return len(batch[0])
    return _first(iter(batch), depth)


def _samples(batch: Any) -> bool:
    """Whether this is a list of samples, not of inputs and targets."""
    lead = batch[0]
    if _shape(lead) is not None:
        return _alike([_shape(each) for each in batch])
    if isinstance(lead, Mapping):
        return isinstance(batch, list)
    alike = {(type(each), len(each)) for each in batch if isinstance(each, tuple)}
    return isinstance(batch, list) and isinstance(lead, tuple) and len(alike) == 1


def _alike(shapes: list[Any]) -> bool:
    """Whether shapes are those of single numbers, or of sequences each as long as it happens to be.

    Inputs and targets are as long as each other; but bags of words come with their offsets.
    """
    if any(shape is None for shape in shapes):
        return False
    if not any(len(shape) for shape in shapes):
        return True
    lengths, rests = {tuple(shape[:1]) for shape in shapes}, {tuple(shape[1:]) for shape in shapes}
    return len(shapes) > _FIELDS and len(rests) == 1 and len(lengths) > 1 and () not in lengths


def _unstacked(batch: Any) -> bool:
    """Whether inputs and targets are lists with an entry a sample: images of many sizes, say."""
    if not all(isinstance(each, list | tuple) and each for each in batch):
        return False
    return len({len(each) for each in batch}) == 1 and any(
        all(isinstance(sample, (Mapping, *_SCALARS)) or _shape(sample) == () for sample in each)
        for each in batch
    )


def _first(values: Iterator[Any], depth: int) -> int | str:
    """The size of the first value that has a tensor's, else of the first that has a length."""
    fallback: int | str = EMPTY
    for value in values:
        found = size_of(value, depth + 1)
        if isinstance(found, int) and _has_tensor(value, depth):
            return found
        if fallback == EMPTY or (isinstance(fallback, str) and isinstance(found, int)):
            fallback = found
    return fallback


def _has_tensor(value: Any, depth: int) -> bool:
    if _shape(value) is not None or depth > _DEEP:
        return True
    if isinstance(value, Mapping):
        return any(_has_tensor(each, depth + 1) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_has_tensor(each, depth + 1) for each in value[:8])
    return hasattr(value, "__dataclass_fields__") or _stated(value) is not None


def _length(batch: Any) -> int | str:
    name = type(batch).__name__
    if hasattr(type(batch), "__next__"):
        return f"{name} can be read only once, so its length is not taken"
    if not hasattr(type(batch), "__len__"):
        return f"{name} has neither shape nor length: say how with batch_size=function"
    try:
        return len(batch) or EMPTY
    except RuntimeError:  # A nested tensor's, before torch has jagged ones.
        return int(batch.size(0)) or EMPTY


def _tokens(batch: Any) -> tuple[int | None, bool]:
    if not hasattr(batch, "keys") or not hasattr(batch, "get"):
        return None, False
    for key in TOKEN_KEYS:
        count = as_count(batch[key]) if key in batch else None
        if isinstance(count, int):
            return count, True
    shape = _shape(batch["input_ids"]) if "input_ids" in batch else None
    if shape is None or len(shape) < 2:
        return None, False
    return int(shape[0]) * int(shape[1]), False


def _applied(function: Callable[[Any], Any], batch: Any) -> Size:
    try:
        count = as_count(function(batch))
    except Exception as exc:
        name = getattr(function, "__name__", "batch_size")
        return Size(reason=f"{name} raised {type(exc).__name__}: {exc}")
    return Size(count) if isinstance(count, int) else Size(reason=count)
