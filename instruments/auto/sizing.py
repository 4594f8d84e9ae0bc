"""The size of what a loader gives or a model is given, in a fraction of a microsecond."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple, Protocol
from weakref import ref

from overseer.measure.items import SIZE_ATTRIBUTES, Sizer
from overseer.measure.waiting import SAME

#: Among so many parameters is one that tells what a sample looks like.
FIRST = 8
#: Among so many parts of an object is a tensor, if it is a batch.
PARTS = 32
#: The sizes of a tensor.
Shape = tuple[int, ...]


class Asked(Protocol):
    """What a voirfile asks for, and who measures it.

    Attributes:
        batch_size: Computes the number of items in a batch; a number is not for the hooks to count.
    """

    batch_size: Callable[[Any], Any] | int | None

    def learned(self) -> None:
        """The batches since the last step have been learned from."""


class Given(NamedTuple):
    """What a model is called with.

    Attributes:
        items: How many; None when that can't be told.
        away: It lies on another device than the processor.
        single: It is one sample, not a batch, of so many dimensions; 0: it is a batch.
        alone: It is one sample, and nothing else is given.
        first: It is the first argument.
        batch: Tells whether the same is given once more.
    """

    items: int | None
    away: bool
    single: int = 0
    alone: bool = False
    first: bool = False
    batch: Batch | None = None


class Batch:
    """Knows a tensor again without keeping it alive; a view that is made anew, too.

    Args:
        tensor: It must not be changed in place to be the same.
    """

    __slots__ = ("_of", "_place")

    def __init__(self, tensor: Any) -> None:
        base = tensor._base
        self._of = ref(tensor if base is None else base)
        self._place = (tensor.storage_offset(), tensor.shape, tensor._version)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch) or self._place != other._place:
            return False
        of = self._of()
        return of is not None and of is other._of()

    __hash__ = None  # type: ignore[assignment]


def _known_again(tensor: Any) -> Batch | None:
    """What knows it again, if it can be."""
    try:
        return Batch(tensor)
    except Exception:  # One without storage, or a version.
        return None


def weight_of(module: Any) -> Shape | None:
    """The shape of the first matrix or kernel among a module's parameters."""
    try:
        for parameter in islice(module.parameters(), FIRST):
            if parameter.dim() > 1:
                return tuple(parameter.shape)
    except Exception:
        pass  # It has no shape yet: a lazy module's.
    return None


def _dimensions(tensor: Any, weight: Shape | None) -> int:
    """How many dimensions it has if it is one sample of what the weight is applied to; else 0."""
    shape = tensor.shape
    dimensions = len(shape)
    if weight is None or not dimensions or not tensor.is_floating_point():
        return 0
    fits = shape[0] == weight[1] and dimensions == len(weight) - 1
    return dimensions if fits else 0


def _inside(value: Any) -> list[Any]:
    """The first parts of a mapping, a list, a named tuple or a dataclass; none of all else."""
    kind = type(value)
    if isinstance(value, Mapping):
        if "_metadata" in getattr(value, "__dict__", ()):
            return []  # A module's ``state_dict``.
        return [value[key] for key in islice(value.keys(), PARTS)]
    if kind in (list, tuple) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return list(value[:PARTS])
    return [getattr(value, name) for name in getattr(kind, "__dataclass_fields__", ())]


def _states_size(value: Any) -> bool:
    return any(type(getattr(value, name, None)) is int for name in SIZE_ATTRIBUTES)


class Sizes:
    """Reads the first dimension of the first tensor; asks nothing of a device.

    Args:
        torch: The module.
        asked: Has a function that sizes batches instead, if somebody asks for that, at any time.
        tokens: Called when a loader's batch states how many tokens it has, which then are items.
        unknown: Called with the reason when that function has not sized a loader's batch.

    Attributes:
        reason: Why it has not sized what a model was given; None when it has.
    """

    def __init__(
        self,
        torch: Any,
        asked: Asked,
        tokens: Callable[[], object] = bool,
        unknown: Callable[[str], object] = bool,
    ) -> None:
        self._tensor, self._tokens, self._unknown = torch.Tensor, tokens, unknown
        self._parameter, self._module = torch.nn.Parameter, torch.nn.Module
        self._functions = getattr(torch._C, "_functorch", None)
        self._sizer = Sizer()
        self._asked = asked
        self.reason: str | None = None

    @property
    def function(self) -> Callable[[Any], Any] | None:
        """What sizes batches instead."""
        function = self._asked.batch_size
        return function if callable(function) else None

    def of_batch(self, batch: Any) -> int | None:
        """Items in a loader's batch, or the tokens that it states; None when it does not say.

        0: the function that was asked for does not know, and nothing else is to be taken for it.
        """
        if self._asked.batch_size is not None and (function := self.function) is not None:
            size = Sizer(function).size(batch)
            if size.items is None:
                self._unknown(str(size.reason))
            return size.items or 0
        sizer = self._sizer
        try:  # The way that led to a tensor in a batch of this kind before.
            lead = sizer.leads[type(batch)]
            tensor = batch if lead is None else lead(batch)
            if type(tensor) in sizer.tensors:
                return tensor.shape[0] or None
        except Exception:
            pass  # The long way says what it is.
        size = sizer.size(batch)
        if size.stated:
            self._tokens()
            return size.tokens
        return size.items

    def way(self, kind: type) -> Callable[[Any], Any] | None:
        """What gets at the tensor that sizes batches of this kind; None if it is of another."""
        sizer = self._sizer
        if self.function is not None or kind not in sizer.leads or sizer.tensors != {self._tensor}:
            return None
        return sizer.leads[kind] or SAME

    def told(self, given: Given, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        """What a model is called with, of which no loader gave anything: sized by the function.

        Args:
            given: What it is otherwise.
            args: Its arguments: the only one, or all in a tuple, are what the function is asked of.
            kwargs: Its named arguments: if there are no others, it is asked of these.
        """
        function = self.function
        if function is None:
            return given
        size = Sizer(function).size((args[0] if len(args) == 1 else args) if args else kwargs)
        self.reason = size.reason
        return given._replace(items=size.items, alone=given.alone and size.items == 1)

    def of_call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], weight: Shape | None = None
    ) -> Given:
        """What a model is called with, judged by its first tensor.

        Args:
            args: Its arguments.
            kwargs: Its named arguments.
            weight: The shape of what it applies first.
        """
        tensor = self._tensor
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, tensor):
                first = bool(args) and value is args[0]
                return self._of_tensor(value, weight, first, len(args) + len(kwargs) == 1)
        for value in (*args, *kwargs.values()):
            if type(value) in (dict, list, tuple):
                return Given(self._of_several(value, weight), False)
        for value in (*args, *kwargs.values()):
            if self._is_batch(value) and (items := self._sizer.size(value).items) is not None:
                return Given(items, False)
        return Given(None, False)

    def _of_several(self, values: Any, weight: Shape | None) -> int | None:
        """Items in a mapping or a list, which may be one of samples: images, say."""
        if type(values) is list and all(self._is_sample(each, weight) for each in values):
            return len(values) or None
        return self._sizer.size(values).items

    def _is_batch(self, value: Any) -> bool:
        """Whether an object of another kind is a batch: it has tensors in it, and no model.

        A configuration that has a batch size is none. Of what may be anything, but for its
        attributes, only the size that it states is known.
        """
        try:
            own = _inside(value)
            parts = own or list(vars(value).values())[:PARTS]
            if any(isinstance(each, self._module) for each in (value, *parts)):
                return False
            if not any(self._is_input(each) for part in parts for each in (part, *_inside(part))):
                return False
            return bool(own) or _states_size(value)
        except Exception:  # Any library's objects may raise anything when looked at.
            return False

    def _is_input(self, value: Any) -> bool:
        """Whether it is a tensor with a size that may be read, and none of a model's own."""
        if not isinstance(value, self._tensor) or isinstance(value, self._parameter):
            return False
        return value.grad_fn is None and any(type(size) is int for size in value.shape[:1])

    def _is_sample(self, value: Any, weight: Shape | None) -> bool:
        return isinstance(value, self._tensor) and _dimensions(value, weight) > 0

    def _of_tensor(self, value: Any, weight: Shape | None, first: bool, only: bool) -> Given:
        whole = self._whole(value)
        if whole is not value:
            return Given(whole, not value.is_cpu)
        size = value.shape[0] if value.dim() else None
        if type(size) is not int:  # While a graph is traced it may be a symbol: do not look at it.
            return Given(None, not value.is_cpu)
        single = _dimensions(value, weight)
        size = 1 if single else size
        alone = only and size == 1
        return Given(size, not value.is_cpu, single, alone, first, _known_again(value))

    def _whole(self, value: Any) -> Any:
        """Of a sample that stands for a batch under ``vmap``, the batch's size; else itself."""
        known = self._functions
        if known is None or known.peek_interpreter_stack() is None:
            return value
        inner = value
        while known.is_gradtrackingtensor(inner):
            inner = known.get_unwrapped(inner)
        if not known.is_batchedtensor(inner):
            return value
        return known.get_unwrapped(inner).shape[known.maybe_get_bdim(inner)]

    def in_graph(self, args: tuple[Any, ...]) -> bool:
        """Whether a call is a part of what is learned from, and no pass by itself.

        So it is where it goes on from another, as in a network that recurs, or is a function's of
        which the gradients are asked for.
        """
        known = self._functions
        if known is not None and known.peek_interpreter_stack() is not None:
            return True
        tensor = self._tensor
        flat = (each for arg in args for each in (arg if type(arg) in (tuple, list) else (arg,)))
        return any(isinstance(each, tensor) and each.grad_fn is not None for each in flat)
