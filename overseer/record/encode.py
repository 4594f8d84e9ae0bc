"""Strict JSON of anything, one line a value: what no JSON can hold is described, never refused.

NaN and the infinities become strings, a tensor of one element its number, a larger one its shape
and dtype; what is too large or refers to itself is cut, and the text says so. The result is ASCII
and valid by the letter of RFC 8259, so that strict parsers of other languages read it too.

A value on a device is **not read** unless the caller says ``wait=True``: reading it would hold the
calling thread until the device has caught up. :func:`snapshot` takes such values along for later.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, KeysView, Mapping, ValuesView
from enum import Enum
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Union

from ..boundary import asked_for, let_through
from .tensors import Pending, describe, elements, is_tensor, on_host, taken

Json = Union[None, bool, int, float, str, list["Json"], dict[str, "Json"]]  # noqa: UP007

#: The longest string, in characters, that is written whole.
LONGEST = 10_000
#: The deepest nesting that is followed.
DEEPEST = 32
#: How many values one record may hold, all containers together.
MOST = 20_000
#: Python itself refuses to read longer integers back (``sys.set_int_max_str_digits``).
INT_BITS = 4096

#: What a value's own code may raise that only says that it cannot be read.
RAISED = (Exception, SystemExit, GeneratorExit)

_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMED = (FunctionType, BuiltinFunctionType, MethodType, type, ModuleType)
_SEQUENCES = (list, tuple, range, deque, KeysView, ValuesView, ItemsView)
_AS_TEXT = frozenset({"decimal", "_decimal", "fractions", "uuid", "ipaddress", "numbers"})
# Python's own C encoder: `default` is never reached, since only plain values are handed over.
_strict = json.JSONEncoder(allow_nan=False, check_circular=False).encode
_with_nan = json.JSONEncoder(check_circular=False).encode


def encode(value: object, *, wait: bool = False, nan: bool = False) -> bytes:
    """One line of strict JSON, newline included; never raises for any value.

    Args:
        value: Anything.
        wait: Whether values on a device may be read, which waits for the device.
        nan: Write NaN and the infinities as numbers, as Python's own ``json`` does and reads.
    """
    text = _flat(value)
    if text is None:
        text = (_with_nan if nan else _strict)(_Simplifier(wait, nan).value(value))
    return text.encode("ascii") + b"\n"


def _flat(value: object) -> str | None:
    """The text of a flat dict of plain values, the common case at a tenth of the price."""
    try:
        if type(value) is not dict or not _PLAIN.issuperset(map(type, value.values())):
            return None
        if not all(type(key) is str for key in value):
            return None
        text = _strict(value)
    except ValueError:  # NaN or infinity among the values, or an integer that is too long.
        return None
    except Exception as error:  # A class that has no hash; another thread changes the dict.
        if asked_for(error):
            raise
        return None
    # "\\ud" begins the escape of a surrogate: perhaps a lone one, which strict parsers refuse.
    return text if len(text) <= LONGEST and "\\ud" not in text else None


def simplify(value: object, *, wait: bool = False) -> Json:
    """``value`` as plain JSON values: finite floats, text without lone surrogates, string keys.

    Args:
        value: Anything.
        wait: Whether values on a device may be read, which waits for the device.
    """
    return _Simplifier(wait).value(value)


def text_of(value: str) -> str:
    """``value`` cut to :data:`LONGEST` characters, saying so; lone surrogates made visible."""
    whole = str.__str__(value)
    cut = whole if len(whole) <= LONGEST else f"{whole[:LONGEST]}... [cut: {len(whole)} characters]"
    # A file name that is not UTF-8 holds lone surrogates; "\udc80" reads as the text "\\udc80".
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")


def _float(value: float) -> Json:
    number = float.__float__(value)
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _int(value: int) -> Json:
    number = int.__index__(value)
    bits = number.bit_length()
    return number if bits <= INT_BITS else f"<integer of {bits} bits>"


def _bytes(value: bytes | bytearray | memoryview) -> Json:
    raw = bytes(value[: LONGEST + 1])
    try:
        if len(value) <= LONGEST:
            return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    return {"bytes": len(value), "starts": raw[:32].hex()}


def snapshot(value: object) -> object:
    """``value`` as it is now, for :func:`encode` later: what changes until then does not show.

    Waits for no device: a number that is on one is copied, and read once it has arrived.
    """
    try:
        # Not isinstance, which asks the value for its class: a dead weakref.proxy raises then.
        if type(value) in _PLAIN or type(value) is Pending:
            return value
        return taken(value) if is_tensor(value) else simplify(value)
    except RAISED as error:
        let_through(error)
        return simplify(value)


def unreadable(value: object, error: BaseException) -> str:
    """What is written in the place of a value that raised ``error`` when it was read."""
    return f"<{_class_name(value)} that raises {_class_name(error)}>"


class _Simplifier:
    """Turns one value into plain JSON; remembers how much it holds and what it is inside of."""

    def __init__(self, wait: bool, nan: bool = False) -> None:
        self.wait = wait
        self.nan = nan
        self.left = MOST
        self.inside: list[int] = []

    def value(self, value: Any) -> Json:
        """The plain form of ``value``; a description of it when there is none."""
        self.left -= 1
        try:
            return self._by_kind(value)
        except RAISED as error:  # Other people's __repr__, __iter__, keys(), item(), __class__.
            let_through(error)
            return unreadable(value, error)

    def _by_kind(self, value: Any) -> Json:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, Enum):
            return self._enum(value)
        if isinstance(value, str):
            return text_of(value)
        if isinstance(value, int):
            return _int(value)
        if isinstance(value, Pending):
            return self.value(value.value(wait=self.wait))
        if is_tensor(value):  # Before float: numpy.float64 is both.
            return self._tensor(value)
        if isinstance(value, float):
            return float.__float__(value) if self.nan else _float(value)
        plain = self._container(value)
        return self._other(value) if plain is None else plain

    def _enum(self, value: Enum) -> Json:
        return self.value(value.value) if type(value.value) in _PLAIN else value.name

    def _tensor(self, tensor: Any) -> Json:
        if elements(tensor) != 1 or not (self.wait or on_host(tensor)):
            return self.value(describe(tensor))
        try:
            number = tensor.item()
        except Exception:  # Inside vmap, on a lost device, without data ("meta").
            return self.value(describe(tensor))
        return self._within(tensor, lambda: self.value(number))

    def _container(self, value: Any) -> Json:
        """The plain form of a container; ``None`` when ``value`` is none."""
        fields = getattr(type(value), "__dataclass_fields__", None)
        if fields is not None:
            pairs = [(name, getattr(value, name)) for name in fields if hasattr(value, name)]
            return self._within(value, lambda: self._pairs(pairs, len(pairs)))
        if isinstance(value, Mapping):
            return self._within(value, lambda: self._pairs(value.items(), len(value)))
        if isinstance(value, tuple) and hasattr(type(value), "_fields"):
            named = list(zip(value._fields, value, strict=False))  # type: ignore[attr-defined]
            return self._within(value, lambda: self._pairs(named, len(named)))
        if isinstance(value, (set, frozenset)):
            ordered = sorted(islice(value, MOST), key=reprlib.repr)  # One run's text is another's.
            return self._within(value, lambda: self._items(ordered, len(value)))
        if isinstance(value, _SEQUENCES):
            return self._within(value, lambda: self._items(value, len(value)))
        return None

    def _within(self, value: object, inner: Callable[[], Json]) -> Json:
        if id(value) in self.inside:
            return f"<the {_class_name(value)} it is in>"
        if len(self.inside) >= DEEPEST:
            return f"<{_class_name(value)} nested deeper than {DEEPEST}>"
        self.inside.append(id(value))
        try:
            return inner()
        finally:
            self.inside.pop()

    def _items(self, items: Iterable[Any], count: int) -> list[Json]:
        plain: list[Json] = []
        for item in items:
            if self.left <= 0:
                plain.append(f"... [cut: {count} items]")
                break
            plain.append(self.value(item))
        return plain

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], count: int) -> dict[str, Json]:
        plain: dict[str, Json] = {}
        for key, item in pairs:
            if self.left <= 0:
                plain["..."] = f"[cut: {count} keys]"
                break
            plain[self._key(key, plain)] = self.value(item)
        return plain

    def _key(self, key: object, taken: Mapping[str, Json]) -> str:
        if type(key) is str:
            name = text_of(key)
        else:
            plain = self.value(key)
            name = plain if isinstance(plain, str) else _with_nan(plain)
        while name in taken:  # 1 and "1" are two keys; neither may hide the other.
            name += "'"
        return name

    def _other(self, value: Any) -> Json:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _bytes(value)
        if isinstance(value, os.PathLike):
            return self.value(os.fspath(value))
        if isinstance(value, BaseException):
            return text_of(f"{type(value).__name__}: {value}")
        if isinstance(value, _NAMED):
            module = getattr(value, "__module__", None)
            name = getattr(value, "__qualname__", value.__name__)
            return text_of(f"{module}.{name}" if module else name)
        if type(value).__module__ in _AS_TEXT:
            return text_of(str(value))
        if hasattr(type(value), "isoformat"):  # date, time, datetime, pandas.Timestamp
            return text_of(value.isoformat())
        return text_of(repr(value))


def _class_name(value: object) -> str:
    return text_of(type(value).__name__)
