"""Encodes any value as one line of strict JSON; values without a JSON form are described.

NaN and infinities become strings, a tensor with one element its number, a larger one its shape and
dtype. Containers are followed 8 levels deep, up to 1,000 values in all. The result is ASCII and
valid by RFC 8259, so that strict parsers of other languages can read it.

Reading a number on a device would block the thread until the device has caught up. Its tensor is
passed to the caller's ``later`` instead, and the number is written once it has arrived.
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

#: Limits of a record: string length in characters, nesting depth, number of values.
LONGEST_TEXT, DEEPEST_NESTING, MOST_VALUES = 10_000, 8, 1_000
#: Limits of a sample: number of values, in all and per container.
SAMPLE_VALUES, SAMPLE_WIDTH = 256, 32
#: Python refuses to parse longer integers (``sys.set_int_max_str_digits``).
INT_BITS = 4096
#: Array types that are read. Exact types only: reading a subclass may run a collective.
ARRAYS = {
    ("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("numpy", "ndarray"),
}  # fmt: skip
JAX = ("ArrayImpl", "jax")

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMED = (FunctionType, BuiltinFunctionType, MethodType, type, ModuleType)
_SEQUENCES = (list, tuple, range, deque, Set, KeysView, ValuesView, ItemsView)
_AS_TEXT = frozenset({"decimal", "_decimal", "fractions", "uuid", "ipaddress", "numbers"})
# Python's C encoder; it receives only plain values, so `default` is never called.
_strict = json.JSONEncoder(allow_nan=False, check_circular=False).encode
_with_nan = json.JSONEncoder(check_circular=False).encode


class PendingValue:
    """A number pending from a device; encoded as its tensor's description until it arrives.

    Attributes:
        shown: The value to encode.
    """

    __slots__ = ("shown",)

    def __init__(self, described: Json) -> None:
        self.shown = described

    def arrived(self, number: float) -> None:
        """Set the number."""
        self.shown = number


def encode(value: object, *, nan: bool = False, most: int = MOST_VALUES) -> bytes:
    """Encode a value as one line of strict JSON, newline included.

    Args:
        value: Any value.
        nan: Write NaN and infinities as numbers, in the form that Python's ``json`` reads.
        most: Maximum number of values.
    """
    text = (_with_nan if nan else _strict)(_Simplifier(most, nan=nan).value(value))
    return text.encode("ascii") + b"\n"


def simplify(value: object, most: int = MOST_VALUES) -> Json:
    """Convert to plain JSON values: finite floats, text without lone surrogates, string keys."""
    return _Simplifier(most).value(value)


def snapshot(value: object, later: Later, *, sample: bool = False) -> Json:
    """Copy a value as plain JSON values, so that later changes by the script have no effect.

    Args:
        value: Any value.
        later: Called with a tensor on a device and a callback for its number; returns whether the
            callback will be called.
        sample: Replace large containers, and objects of the script's classes, by their type's name.
    """
    return _Simplifier(SAMPLE_VALUES if sample else MOST_VALUES, later, sample=sample).value(value)


def text_of(value: str) -> str:
    """Truncate to :data:`LONGEST_TEXT` characters, with a note; escape lone surrogates."""
    whole = str.__str__(value)
    n = len(whole)
    cut = whole if n <= LONGEST_TEXT else f"{whole[:LONGEST_TEXT]}... [cut: {n} characters]"
    # A file name that is not UTF-8 holds lone surrogates; "\udc80" reads as the text "\\udc80".
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")


class _Simplifier:
    """Converts one value to plain JSON, within a limit on the number of values."""

    def __init__(
        self, most: int, later: Later | None = None, *, sample: bool = False, nan: bool = False
    ) -> None:
        self.left, self.later, self.sample, self.nan = most, later, sample, nan

    def value(self, value: Any, depth: int = 0) -> Json:
        """The plain form of ``value``, or its description."""
        self.left -= 1
        kind = type(value)  # Fast path for most values; a run encodes hundreds a second.
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
            if isinstance(value, (set, frozenset)):  # The order must not differ between runs.
                plain.sort(key=repr)
            return plain if taken == count else [*plain, f"... [cut: {count} items]"]
        made: dict[str, Json] = {}
        for key, item in islice(items, taken):
            made[self._key(key, made)] = self.value(item, depth + 1)
        return made if taken == count else {**made, "...": f"[cut: {count} keys]"}

    def _key(self, key: object, taken: Mapping[str, Json]) -> str:
        plain = self.value(key)
        name = plain if isinstance(plain, str) else _with_nan(plain)
        while name in taken:  # 1 and "1" are different keys: keep both.
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
    """Keys and values of a mapping, dataclass or named tuple, and their number; else None."""
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
