"""Strict JSON of any value, one line each: what JSON cannot hold is described, never refused.

NaN and the infinities become strings, a tensor of one element its number, a larger one its shape
and dtype. Containers are followed 8 deep, up to 1,000 values in all. The result is ASCII and valid
by the letter of RFC 8259, so that strict parsers of other languages read it too.

A number on a device is not read, which would hold the thread until the device has caught up:
whoever asks is given its tensor, and it is written once it has arrived.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, Set, ValuesView
from enum import Enum
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..boundary import is_requested_stop, reraise_requested

Json = Any
Later = Callable[[Any, Callable[[float], object]], bool]

#: The longest string in characters, the deepest nesting, how many values one record may hold.
LONGEST_TEXT, DEEPEST_NESTING, MOST_VALUES = 10_000, 8, 1_000
#: What a sample of a value may hold in all, and each container in it.
SAMPLE_VALUES, SAMPLE_WIDTH = 256, 32
#: Python itself refuses to read longer integers back (``sys.set_int_max_str_digits``).
INT_BITS = 4096
#: Arrays that are read, by their exact type: to read a subclass may be a collective.
ARRAYS = {
    ("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("numpy", "ndarray"),
}  # fmt: skip
JAX = ("ArrayImpl", "jax")

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMED = (FunctionType, BuiltinFunctionType, MethodType, type, ModuleType)
_SEQUENCES = (list, tuple, range, deque, Set, KeysView, ValuesView, ItemsView)
_AS_TEXT = frozenset({"decimal", "_decimal", "fractions", "uuid", "ipaddress", "numbers"})
# Python's own C encoder: `default` is never reached, since only plain values are handed over.
_strict = json.JSONEncoder(allow_nan=False, check_circular=False).encode
_with_nan = json.JSONEncoder(check_circular=False).encode


class PendingValue:
    """A number on its way from a device; until it has come, its tensor's description stands for it.

    Attributes:
        shown: What is written.
    """

    __slots__ = ("shown",)

    def __init__(self, described: Json) -> None:
        self.shown = described

    def arrived(self, number: float) -> None:
        """The number is here."""
        self.shown = number


def encode(value: object, *, nan: bool = False, most: int = MOST_VALUES) -> bytes:
    """One line of strict JSON, newline included.

    Args:
        value: Anything.
        nan: Write NaN and the infinities as numbers, as Python's own ``json`` does and reads.
        most: How many values it may hold.
    """
    text = (_with_nan if nan else _strict)(_Simplifier(most, nan=nan).value(value))
    return text.encode("ascii") + b"\n"


def simplify(value: object, most: int = MOST_VALUES) -> Json:
    """``value`` as plain JSON values: finite floats, text without lone surrogates, string keys."""
    return _Simplifier(most).value(value)


def snapshot(value: object, later: Later, *, sample: bool = False) -> Json:
    """``value`` as it is now, to be encoded later: what the script does to it does not show.

    Args:
        value: Anything.
        later: Called with a tensor on a device, and with what is to be called with its number;
            whether that will be.
        sample: Name large containers, and objects of the script's own classes, by their kind.
    """
    return _Simplifier(SAMPLE_VALUES if sample else MOST_VALUES, later, sample=sample).value(value)


def text_of(value: str) -> str:
    """``value`` cut to :data:`LONGEST_TEXT` characters, saying so; lone surrogates made visible."""
    whole = str.__str__(value)
    n = len(whole)
    cut = whole if n <= LONGEST_TEXT else f"{whole[:LONGEST_TEXT]}... [cut: {n} characters]"
    # A file name that is not UTF-8 holds lone surrogates; "\udc80" reads as the text "\\udc80".
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")


class _Simplifier:
    """Turns one value into plain JSON; counts how much it holds."""

    def __init__(
        self, most: int, later: Later | None = None, *, sample: bool = False, nan: bool = False
    ) -> None:
        self.left, self.later, self.sample, self.nan = most, later, sample, nan

    def value(self, value: Any, depth: int = 0) -> Json:
        """The plain form of ``value``; a description of it when there is none."""
        self.left -= 1
        kind = type(value)  # Of most values: of a run's figures, some hundreds a second.
        if kind is str and len(value) <= LONGEST_TEXT and value.isascii():
            return value
        if kind is float and value - value == 0:
            return value
        try:
            return self._by_kind(value, depth)
        except (Exception, SystemExit, GeneratorExit) as error:  # Other people's code: __repr__.
            if isinstance(error, Exception) and is_requested_stop(error):
                raise
            reraise_requested(error)
            return f"<{_name(type(value))} that raises {_name(type(error))}>"

    def _by_kind(self, value: Any, depth: int) -> Json:
        kind = type(value)
        if value is None or value is True or value is False:
            return value
        if kind is PendingValue:
            return self.value(value.shown, depth)
        if isinstance(value, Enum):
            return self.value(value.value) if type(value.value) in _PLAIN else value.name
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, int):
            number = int.__index__(value)
            bits = number.bit_length()
            return number if bits <= INT_BITS else f"<integer of {bits} bits>"
        if isinstance(value, float):
            return self._float(float.__float__(value))
        if hasattr(kind, "shape") and hasattr(kind, "dtype"):
            return self._array(value, kind, depth)
        pairs = _pairs(value, kind)
        if pairs is not None:
            return self._container(value, kind, depth, *pairs)
        if isinstance(value, _SEQUENCES):
            return self._container(value, kind, depth, value, len(value))
        return self._other(value, kind)

    def _float(self, number: float) -> Json:
        if self.nan or number - number == 0:
            return number
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"

    def _array(self, value: Any, kind: type, depth: int) -> Json:
        if kind.__module__ == "numpy" and kind.__name__ != "ndarray":
            return self.value(value.item(), depth + 1) if hasattr(kind, "item") else _named(kind)
        jax = kind.__name__ == JAX[0] and kind.__module__.startswith(JAX[1])
        if not jax and (kind.__module__, kind.__name__) not in ARRAYS:
            return _named(kind)
        shape, device = [int(n) for n in value.shape], str(getattr(value, "device", "cpu"))
        described = {"shape": shape, "dtype": str(value.dtype).removeprefix("torch.")}
        if "cpu" not in device.lower():
            described["device"] = device
        if any(n != 1 for n in shape):
            return described
        try:
            if value.is_ready() if jax else "device" not in described:
                return self.value(value.item(), depth + 1)
            pending = PendingValue(described)
            if self.later is not None and self.later(value, pending.arrived):
                return pending
        except Exception as error:  # Inside vmap or a graph capture, on a lost device.
            if is_requested_stop(error):
                raise
        return described

    def _container(
        self, value: Any, kind: type, depth: int, items: Iterable[Any], count: int
    ) -> Json:
        if depth >= DEEPEST_NESTING or (self.sample and count > min(SAMPLE_WIDTH, self.left)):
            return f"<{_name(kind)} of {count}>"
        taken = max(min(count, self.left), 0)
        if items is value:
            plain = [self.value(item, depth + 1) for item in islice(items, taken)]
            if isinstance(value, (set, frozenset)):  # One run's text is another's.
                plain.sort(key=repr)
            return plain if taken == count else [*plain, f"... [cut: {count} items]"]
        made: dict[str, Json] = {}
        for key, item in islice(items, taken):
            made[self._key(key, made)] = self.value(item, depth + 1)
        return made if taken == count else {**made, "...": f"[cut: {count} keys]"}

    def _key(self, key: object, taken: Mapping[str, Json]) -> str:
        plain = self.value(key)
        name = plain if isinstance(plain, str) else _with_nan(plain)
        while name in taken:  # 1 and "1" are two keys; neither may hide the other.
            name += "'"
        return name

    def _other(self, value: Any, kind: type) -> Json:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _bytes(value)
        if isinstance(value, os.PathLike):
            return self.value(os.fspath(value))
        if isinstance(value, BaseException):
            return text_of(f"{kind.__name__}: {value}")
        if isinstance(value, _NAMED):
            module = getattr(value, "__module__", None)
            name = getattr(value, "__qualname__", value.__name__)
            return text_of(f"{module}.{name}" if module else name)
        if kind.__module__ in _AS_TEXT:
            return text_of(str(value))
        if hasattr(kind, "isoformat"):  # date, time, datetime, pandas.Timestamp
            return text_of(value.isoformat())
        return _named(kind) if self.sample else text_of(repr(value))


def _pairs(value: Any, kind: type) -> tuple[Iterable[Any], int] | None:
    """The keys and values of a mapping, a dataclass or a named tuple; None for all else."""
    if isinstance(value, Mapping):
        return value.items(), len(value)
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        pairs = [(name, getattr(value, name)) for name in fields if hasattr(value, name)]
    elif isinstance(value, tuple) and hasattr(kind, "_fields"):
        pairs = list(zip(value._fields, value, strict=False))  # type: ignore[attr-defined]
    else:
        return None
    return pairs, len(pairs)


def _bytes(value: bytes | bytearray | memoryview) -> Json:
    raw = bytes(value[: LONGEST_TEXT + 1])
    try:
        if len(value) <= LONGEST_TEXT:
            return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    return {"bytes": len(value), "starts": raw[:32].hex()}


def _named(kind: type) -> str:
    return f"<{_name(kind)}>"


def _name(kind: type) -> str:
    return text_of(kind.__name__)
