"""How many items a batch holds: any library's tensors, containers, mappings and dataclasses.

No array library is imported and nothing is asked of a device: only shapes and lengths are read.
The file is long because its functions call each other: what a list is decides what it is part of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from ..boundary import let_through
from ..unsized import Unsized

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
#: Fewer than this are, also where each would do as a picture or a sequence.
FEW = 4
#: So many of the same shape are samples: of NumPy's arrays, and of tensors that are no columns.
_MANY_ARRAYS, _MANY = 8, 16
_CHANNELS = (1, 3, 4)

Shape = tuple[int, ...]


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
        leads: For each kind of batch how to get at that tensor; None when it is one itself. Of a
            list that is one of samples it gets at None.
        tensors: Kinds of tensor that have a first dimension.
    """

    def __init__(self, function: Callable[[Any], Any] | None = None) -> None:
        self._function = function
        self.tensors: set[type] = set()
        self.leads: dict[type, Callable[[Any], Any] | None] = {}
        self._no_leads: set[type] = set()
        self._row: int | None = None

    def size(self, batch: Any) -> Size:
        """All that ``batch`` says about its size; never an exception."""
        if self._function is not None:
            return _applied(self._function, batch)
        if type(batch) in _LISTS and batch and _PLAIN.issuperset(map(type, batch[:_LOOKED_AT])):
            return Size(len(batch))  # As below, at a tenth of the cost.
        try:
            found = len(batch) if self._rows(batch) else size_of(batch)
            tokens, stated = _tokens(batch)
            if not isinstance(found, int):
                return Size(None, tokens, stated, found)
            if not stated and len(self.leads) < _KINDS:
                self._remember(batch, found)
            return Size(found, tokens, stated)
        except BaseException as exc:  # Any library's objects may raise anything when looked at.
            let_through(exc)
            return Size(reason=f"{type(batch).__name__}: {type(exc).__name__}: {exc}")

    def _rows(self, batch: Any) -> bool:
        """Whether this is a list of such samples as were seen before, if perhaps of few."""
        if type(batch) is not list or not batch or type(batch[0]) not in _LISTS:
            return False
        if self._row is None and len(batch) > _FIELDS and _written_samples(batch):
            lengths = set(map(len, batch))
            self._row = lengths.pop() if len(lengths) == 1 else None
        return self._row is not None and _written(batch) and set(map(len, batch)) == {self._row}

    def _remember(self, batch: Any, items: int) -> None:
        """Keep the way to the tensor that gives this kind of batch its size."""
        if type(batch) in self._no_leads:
            return
        tensor, lead = _lead(batch)
        if tensor is None and len(self._no_leads) < _KINDS:
            self._no_leads.add(type(batch))  # A list of samples; a short one may look different.
        shape = _shape(tensor)
        if shape is None or len(shape) == 0 or shape[0] != items:
            return
        if _stated(tensor) is None and _stated(batch) is None:
            self.leads[type(batch)] = lead
            self.tensors.add(type(tensor))


EMPTY = "the batch is empty"


def batch_size(batch: Any, function: Callable[[Any], Any] | None = None) -> int | None:
    """Items in ``batch``, or None when that can't be told; :class:`Sizer` also says why."""
    return Sizer(function).size(batch).items


def as_count(value: Any) -> int | str:
    """``value`` as a number of items, or the reason why it is none; never asks a device."""
    if isinstance(value, Unsized):
        return str(value)
    device = str(getattr(value, "device", "cpu"))
    if "cpu" not in device.lower():
        return f"it lies on {device}, and reading it there would make the script wait"
    try:
        count = int(value)
    except BaseException as exc:
        let_through(exc)
        if isinstance(value, float):
            return f"{value!r} is not a whole number"  # NaN or infinite.
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
            if isinstance(found, str) or found > 0:
                return found
            return EMPTY if found == 0 else f"{found} is negative"
    return _length(batch)


def _lead(batch: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """The tensor that sizes ``batch`` and the way to it, when it lies on the first level."""
    if _shape(batch) is not None:
        return batch, None
    ways: list[Callable[[Any], Any]] = []
    if isinstance(batch, list | tuple):
        ways = [first_part]
    elif hasattr(batch, "keys"):
        ways = [itemgetter(key) for key in list(batch.keys())]
    else:
        ways = [attrgetter(name) for name in getattr(type(batch), "__dataclass_fields__", ())]
    for way in ways:
        value = way(batch)
        if _has_tensor(value, 0):
            return value, way
    return None, None


def first_part(batch: Any) -> Any:
    """The first of inputs and targets; None where a list or tuple may be one of samples.

    One list means this and the next one that, of one loader or of several: each is looked at.
    """
    if len(batch) < FEW or _level(batch[:_LOOKED_AT]):
        return batch[0]
    return None if len(batch) > _FIELDS or _samples(batch) else batch[0]


def _level(parts: Any) -> bool:
    """Whether a glance tells that :data:`FEW` parts or more are no samples; as :func:`_alike`."""
    try:
        shape, last = getattr(parts[0], "shape", None), getattr(parts[-1], "shape", None)
        if shape is None or last is None or len(shape) != len(last):
            return True
        items, dimensions = shape[0], len(shape)
        if dimensions == 3 and (items in _CHANNELS or shape[2] in _CHANNELS):
            return False
        if len(parts) >= (_MANY_ARRAYS if _is_array(parts[0]) else _MANY) and shape == last:
            return False
        if dimensions == 3 or len(parts) > _FIELDS:
            return {part.shape[0] for part in parts} == {items}
        return last[0] == items  # type: ignore[no-any-return]
    except Exception:  # The long way says what they are.
        return False


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
    if not len(shape):
        return "a tensor without dimensions has no batch dimension"
    return shape[0] if type(shape[0]) is int else as_count(shape[0])


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


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) or (hasattr(value, "keys") and hasattr(value, "__getitem__"))


def _mapped(batch: Any, depth: int) -> int | str | None:
    if _is_mapping(batch):
        return _first(iter(batch[key] for key in list(batch.keys())), depth, named=True)
    return None


def _fields(batch: Any, depth: int) -> int | str | None:
    names = getattr(type(batch), "__dataclass_fields__", None)
    if not names:
        return None
    return _first(iter(getattr(batch, name) for name in names), depth, named=True)


def _listed(batch: Any, depth: int) -> int | str | None:
    if not isinstance(batch, list | tuple):
        return None
    if not batch:
        return EMPTY
    if all(isinstance(each, _SCALARS) for each in batch[:_LOOKED_AT]) or _samples(batch):
        return len(batch)
    if depth == 0 and _few_samples(batch):
        return len(batch)
    return _first(iter(batch), depth, named=hasattr(type(batch), "_fields"))


def _samples(batch: Any) -> bool:
    """Whether this is a list of samples, not of inputs and targets."""
    lead, some = batch[0], batch[:_LOOKED_AT]
    if _shape(lead) is not None:
        return _alike([_shape(each) for each in some], _is_array(lead))
    if isinstance(batch, list) and isinstance(lead, list | tuple) and _written_samples(batch):
        return True
    if isinstance(lead, (list, *_SCALARS)) or _stated(lead) is not None:
        return False
    if isinstance(lead, tuple):
        alike = {(type(each), len(each)) if isinstance(each, tuple) else None for each in some}
        return isinstance(batch, list) and len(alike) == 1 and not _zipped(batch)
    kinds = {type(each): each for each in some}  # Looking at one of each kind costs less.
    many = isinstance(batch, list) or len(batch) > _FIELDS  # A short tuple: inputs and targets.
    if _is_mapping(lead):
        samples = many and all(map(_is_mapping, kinds.values())) and _keys_in_common(some)
        return samples and not _batched(batch)
    if hasattr(type(lead), "__dataclass_fields__"):
        return many and len(kinds) == 1
    return all(map(_opaque, kinds.values())) and _of_one_kind(list(kinds))


def _zipped(batch: Any) -> bool:
    """Whether tuples are a column of pictures and one of dictionaries, not a sample each."""
    if len(batch) > _FIELDS:
        return False
    return len({all(isinstance(value, Mapping) for value in each) for each in batch}) > 1


def _written_samples(batch: Any) -> bool:
    """Whether lists of numbers or texts are samples, not inputs and targets: many, or ragged."""
    if not _written(batch):
        return False
    some = batch[:_LOOKED_AT]
    if len(set(map(len, some))) > 1:
        return True
    # Rows of numbers beside plain numbers are inputs and targets, however many there are.
    nested = {isinstance(each[0], list | tuple) for each in some if each}
    return len(batch) > _FIELDS and len(nested) < 2


def _written(part: Any) -> bool:
    """Whether a list holds lists only, and these nothing but numbers and texts, however deep."""
    some = part[:_LOOKED_AT] if isinstance(part, list | tuple) else ()
    return bool(some) and all(isinstance(each, list | tuple) and _numbers(each) for each in some)


def _numbers(value: Any, depth: int = 0) -> bool:
    """Whether there are no more than numbers and texts in it, as far as the first of it tell."""
    if not isinstance(value, list | tuple):
        return isinstance(value, _SCALARS)
    few = value[:8]
    if _PLAIN.issuperset(map(type, few)):  # As below, in a fraction of the time.
        return True
    return depth <= _DEEP and all(_numbers(each, depth + 1) for each in few)


def _keys_in_common(mappings: Any) -> bool:
    """Samples have keys in common; a dictionary of inputs and one of targets have not."""
    lead, *others = [set(each.keys()) for each in mappings[:2]]
    return not lead or all(not other or lead & other for other in others)


def _same_keys(mappings: Any) -> bool:
    """Whether these are mappings, all with the same keys."""
    if not mappings or not all(map(_is_mapping, mappings)):
        return False
    keys = set(mappings[0].keys())
    return bool(keys) and all(set(each.keys()) == keys for each in mappings)


def _few_samples(batch: Any) -> bool:
    """Whether a short tuple of mappings, with nothing beside it, is one of samples."""
    return isinstance(batch, tuple) and _same_keys(batch) and all(map(_unbatched, batch))


def _batched(part: Any) -> bool:
    """Whether a short list of mappings is one of inputs, as of encoded questions and answers.

    One tensor each tells too little: those of samples are often as long as each other.
    """
    return _shared(part) > 0 and len(list(part[0].keys())) > 1


def _shared(part: Any) -> int:
    """How long all tensors in a short list of mappings are, if that may be a batch's size; else 0.

    Only where there is nothing but tensors, and neither sequences alone nor pictures.
    """
    if not isinstance(part, list) or not 1 < len(part) <= _FIELDS or not _same_keys(part):
        return 0
    found = [_shape(each[key]) for each in part for key in list(each.keys())]
    if not all(shape is not None and len(shape) for shape in found):
        return 0
    shapes = [tuple(shape) for shape in found]
    lengths = {shape[0] or 0 for shape in shapes}
    if len(lengths) > 1 or max(map(len, shapes)) < 2:
        return 0
    turned = [(*shape[2:], *shape[:2]) for shape in shapes]  # With channels last.
    return 0 if any(_pictures([shape]) for shape in shapes + turned) else lengths.pop()


def _unbatched(mapping: Any) -> bool:
    """Whether it is one sample's: no tensor in it is as long as the first, or none has a length.

    Encoded questions and answers have the same keys too, and their tensors are equally long.
    """
    values = [mapping[key] for key in list(mapping.keys())]
    shapes = [tuple(shape) for shape in map(_shape, values) if shape is not None and len(shape)]
    single = any(isinstance(value, _SCALARS) or _shape(value) == () for value in values)
    if len(shapes) < 2:  # A picture and its label.
        return single and (_pictures(shapes) if shapes else _single(values))
    return shapes[0][0] not in {shape[0] for shape in shapes[1:]}


def _opaque(value: Any) -> bool:
    """Whether nothing is known of it, as of a picture: it is one thing, and not to be read once."""
    if isinstance(value, _SCALARS) or _shape(value) is not None or _stated(value) is not None:
        return False
    return not any(hasattr(type(value), name) for name in ("__len__", "__next__"))


def _of_one_kind(kinds: list[type]) -> bool:
    """Whether they have a class in common, as pictures from files of many formats have."""
    bases = kinds[0].__mro__[:-1] or kinds  # All but ``object``, unless it is one.
    return any(all(issubclass(kind, base) for kind in kinds) for base in bases)


def _is_array(value: Any) -> bool:
    """Whether it is one of NumPy's, which PyTorch's loaders never make columns of."""
    return type(value).__module__ == "numpy"


def _alike(shapes: list[Any], arrays: bool) -> bool:
    """Whether shapes are those of single numbers, of pictures, or of sequences of any length.

    Inputs and targets are as long as each other; but bags of words come with their offsets.

    Args:
        shapes: The shapes.
        arrays: They are those of NumPy's arrays.
    """
    if any(shape is None for shape in shapes):
        return False
    if not any(len(shape) for shape in shapes):
        return True
    if len(shapes) < FEW or len({len(shape) for shape in shapes}) != 1:
        return False
    each = [tuple(shape) for shape in shapes]
    return _pictures(each) or _ragged(each) or _too_many(each, arrays)


def _too_many(shapes: list[Shape], arrays: bool) -> bool:
    """Whether shapes are all the same, and more than those of inputs and targets are."""
    if len(set(shapes)) != 1:
        return False
    shape = shapes[0]
    square = len(shape) == 3 and shape[0] == shape[1]
    if (square or len(shapes) > _FIELDS) and _pictures([(*shape[2:], *shape[:2])]):
        return True
    return len(shapes) >= (_MANY_ARRAYS if arrays else _MANY) and (arrays or len(shape) > 1)


def _pictures(shapes: list[Shape]) -> bool:
    """Whether each is the shape of a picture: channels, height, width."""
    return all(
        len(shape) == 3 and shape[0] in _CHANNELS and (shape[1] or 0) > 4 and (shape[2] or 0) > 4
        for shape in shapes
    )


def _ragged(shapes: list[Shape]) -> bool:
    """Whether first dimensions differ as those of sequences, or of pictures with channels last."""
    lengths, rests = {shape[0] for shape in shapes}, {shape[1:] for shape in shapes}
    if len(shapes) > _FIELDS:
        return len(lengths) > 1 if len(rests) == 1 else 2 * len(lengths) > len(shapes)
    if len(rests) == 1 and len(lengths) == len(shapes):
        return True
    return len(lengths) > 1 and _pictures([(*shape[2:], *shape[:2]) for shape in shapes])


def _first(values: Iterator[Any], depth: int, named: bool = False) -> int | str:
    """The size of the first value that has a tensor's, else of the first that has a length.

    What is ``named`` is no list of inputs and targets, these would have names of their own.
    """
    before: list[Any] = []
    for value in values:  # What lies behind the first tensor is not even asked for.
        if isinstance(value, list | tuple):
            break
        found = size_of(value, depth + 1)
        if isinstance(found, int) and _has_tensor(value, depth):
            return found
        before.append(value)
    else:
        return _together(before, depth, named)
    return _together([*before, value, *values], depth, named)


def _together(parts: list[Any], depth: int, named: bool) -> int | str:
    """As above, where there are lists: what they hold is seen from the parts beside them."""
    length = _unstacked(parts)
    if length:
        return length
    fallback: int | str = EMPTY
    for at, part in enumerate(parts):
        whole = named and _rows(part)
        found = len(part) if whole else size_of(part, depth + 1)
        if isinstance(found, int) and _has_tensor(part, depth):
            return _agreed(part, found, parts[:at] + parts[at + 1 :], depth)
        if isinstance(found, str) and isinstance(part, tuple) and _same_keys(part[:_LOOKED_AT]):
            # Pictures without anything on them are pictures all the same.
            length = _agreed(part, 0, parts[:at] + parts[at + 1 :], depth)
            if length:
                return length
        if fallback == EMPTY or (isinstance(fallback, str) and isinstance(found, int)):
            fallback = found
    return fallback


def _unstacked(parts: list[Any]) -> int:
    """How many entries inputs and targets have where they are lists with one a sample; else 0."""
    lists = [part for part in parts if not isinstance(part, _SCALARS)]
    if not all(isinstance(part, list | tuple) for part in lists):
        return 0
    if len({len(part) for part in lists}) != 1:
        return 0
    if len(lists) == 1 and _batched(lists[0]):
        return 0
    whole = any(map(_single, lists)) or (len(lists) > 1 and all(map(_rows, lists)))
    return len(lists[0]) if whole else 0


def _rows(part: Any) -> bool:
    """Whether lists of numbers, one of several parts, are one a sample; a tuple may be a pair."""
    if isinstance(part, list):
        return isinstance(part[0] if part else None, list) and _written(part)
    return isinstance(part, tuple) and _written_samples(part)


def _single(part: Any) -> bool:
    """Whether each entry of a list is a sample's: a number, a text, a dictionary."""
    return isinstance(part, list | tuple) and all(
        isinstance(each, (Mapping, *_SCALARS)) or _shape(each) == () for each in part[:_LOOKED_AT]
    )


def _agreed(part: Any, found: int, others: list[Any], depth: int) -> int:
    """The size of ``part``: a list of samples or of inputs, whichever the other parts agree with.

    Where they agree with neither or with both, it is as long as it would be alone; but beside an
    object that nothing is known of, dictionaries with the same keys are its samples' targets.
    """
    shapes, shared = _even(part), _shared(part)
    if not shapes and not shared and not (isinstance(part, tuple) and _single(part)):
        if not _tuples(part):
            return found
        others = [each for each in others if not isinstance(each, list | tuple)]
    stacked, length = shapes[0][0] if shapes else shared or found, len(part)
    said = {_said(other, shapes, depth) for other in others}
    if (stacked in said) == (length in said):
        targets = length not in said and _same_keys(part[:_LOOKED_AT])
        return length if targets and any(map(_opaque, others)) else found
    return stacked if stacked in said else length


def _tuples(part: Any) -> bool:
    """Whether it is a tuple of tuples as long as each other: samples, or inputs and the like."""
    if not isinstance(part, tuple) or not all(isinstance(each, tuple) for each in part):
        return False
    return len(part[0]) > 1 and len(set(map(len, part))) == 1


def _said(other: Any, shapes: list[Shape], depth: int) -> int | str:
    """The size that another part speaks for, beside tensors of ``shapes``; nothing is text."""
    beside = _even(other)
    firsts = {shape[0] for shape in beside}
    if len(firsts) > 1 or _single(other) or (beside and _pictures(beside + shapes)):
        return len(other)
    if beside:  # States of layers, say, tell nothing.
        return beside[0][0] if shapes and shapes[0][0] in firsts else ""
    try:
        found = size_of(other, depth + 1)
        return found if isinstance(found, int) else _held(other)
    except Exception:  # It is not what the size is taken from.
        return ""


def _held(value: Any) -> int | str:
    """The first dimension of the first tensor that an unknown object holds, as one padded does."""
    for each in list(vars(value).values()) if _opaque(value) and hasattr(value, "__dict__") else ():
        shape = _shape(each)
        if shape is not None and len(shape):
            return shape[0] if type(shape[0]) is int else as_count(shape[0])
    return ""


def _even(part: Any) -> list[Shape]:
    """The shapes in a list of tensors of as many dimensions each, else none."""
    if not isinstance(part, list | tuple):
        return []
    shapes = [_shape(each) for each in part[:_LOOKED_AT]]
    if any(shape is None or not len(shape) for shape in shapes) or len(set(map(len, shapes))) != 1:
        return []
    return [tuple(shape) for shape in shapes] if _stated(part) is None else []


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
        return f"{name} has neither shape nor length"
    try:
        return len(batch) or EMPTY
    except RuntimeError as why:  # A nested tensor's, before torch has jagged ones.
        try:
            return as_count(batch.size(0)) or EMPTY
        except Exception:
            raise why from None


def _tokens(batch: Any) -> tuple[int | None, bool]:
    """The tokens in ``batch`` or in the first of its parts, and whether they are stated."""
    found = (None, False) if type(batch) in _LISTS else _tokens_in(batch)
    if found[0] is None and isinstance(batch, list | tuple) and batch:
        found = _tokens_in(batch[0])
        if found[0] is not None and (_samples(batch) or _few_samples(batch)):
            return None, False  # They are one sample's.
    return found


def _tokens_in(part: Any) -> tuple[int | None, bool]:
    """As above, of one part alone."""
    names = _by_name(part)
    if names is None:
        return None, False
    for key in TOKEN_KEYS:
        count = as_count(names[key]) if key in names else None
        if isinstance(count, int):
            return count, True
    shape = _shape(names["input_ids"]) if "input_ids" in names else None
    if shape is None or len(shape) < 2:
        return None, False
    rows, length = int(shape[0]), int(shape[1])
    return (rows * length if min(rows, length) >= 0 else None), False


def _by_name(part: Any) -> Any:
    """What may say tokens: a mapping itself, or an object's fields; no property is asked."""
    kind = type(part)
    if hasattr(kind, "keys") and hasattr(kind, "get"):
        return part
    if isinstance(part, type):
        return None
    fields = getattr(kind, "__dataclass_fields__", ())
    if isinstance(part, tuple):
        fields = getattr(kind, "_fields", ())
    if not fields:
        return getattr(part, "__dict__", None)
    return {
        name: getattr(part, name, None) for name in (*TOKEN_KEYS, "input_ids") if name in fields
    }


def _applied(function: Callable[[Any], Any], batch: Any) -> Size:
    try:
        count = as_count(function(batch))
    except BaseException as exc:
        let_through(exc)
        name = getattr(function, "__name__", "batch_size")
        return Size(reason=f"{name} raised {type(exc).__name__}: {exc}")
    return Size(count) if isinstance(count, int) else Size(reason=count)
