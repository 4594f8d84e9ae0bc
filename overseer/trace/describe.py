"""Values of any kind as what a trace can hold: small, finished, and without touching a device."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any

from .wire import double, number, text

#: The longest text of a label, and of an argument's value.
LABEL, ARGUMENT = 200, 1000
#: Arguments of one event; more are left out.
ARGUMENTS = 64
#: Values that are looked at to describe one that holds many.
MOST = 200
#: Values that stay as they are; texts too, unless they are long.
_PLAIN = (int, float, bool, type(None))
_BYTES = (bytes, bytearray, memoryview)


class _Brief(reprlib.Repr):
    """What containers hold, at most some hundred values, without looking into arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 100
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 20
        self.maxfrozenset = self.maxdeque = 20
        self.maxlevel = 3
        self._left = 0

    def brief(self, value: object) -> str:
        """``value`` in at most :data:`ARGUMENT` characters."""
        self._left = MOST
        return cut(self.repr(value), ARGUMENT)

    def repr1(self, x: Any, level: int) -> str:
        """A value within another; values that are too many are not looked at."""
        self._left -= 1
        if self._left < 0:
            return "..."
        if isinstance(x, _BYTES):
            return repr(bytes(x[: self.maxother])) + ("..." if len(x) > self.maxother else "")
        shape = getattr(x, "shape", None)
        if isinstance(shape, tuple):
            return str(_array(x, shape))
        return super().repr1(x, level)


def label_of(value: object) -> str:
    """``value`` as a label."""
    found = value if isinstance(value, str) else described(value)
    return cut(found if isinstance(found, str) else _brief(found), LABEL)


def settled(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, those that may change or be large described as they are now."""
    if len(arguments) > ARGUMENTS:
        for key in list(arguments)[ARGUMENTS:]:
            del arguments[key]
    for key, value in arguments.items():
        kind = type(value)
        if kind not in _PLAIN and (kind is not str or len(value) > ARGUMENT):
            arguments[key] = described(value)
    return arguments


def described(value: Any) -> Any:
    """A number or a short text for ``value``; it never raises, and waits for no device."""
    try:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, str):
            return cut(str(value), ARGUMENT)
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            return _array(value, shape)
        for kind in (bool, int, float):
            if isinstance(value, kind):
                return kind(value)
        return _Brief().brief(value)
    except Exception:  # Somebody's __repr__, or an attribute that is none.
        return f"<{type(value).__name__}>"


def _array(value: Any, shape: tuple[int, ...]) -> object:
    if not shape and hasattr(value, "item") and _on_host(value):
        return described(value.item())
    kind = f" {value.dtype}" if hasattr(value, "dtype") else ""
    return f"{type(value).__name__}{list(shape)}{kind}".replace("torch.", "")


def _on_host(value: Any) -> bool:
    device = getattr(value, "device", "cpu")
    # PyTorch's has a type, which to ask for is a fifth of what making a text of it takes.
    return getattr(device, "type", device) == "cpu" or str(device) == "cpu"


def quantity(value: Any) -> Any:
    """``value`` as a counter takes it now: a number, or a detached scalar that is read later.

    Reading a scalar on a device would hold the script up until the device is there.
    """
    try:
        if not hasattr(value, "detach"):
            return None if isinstance(value, (str, *_BYTES)) else float(value)
        return float(value.item()) if _on_host(value) else value.detach()
    except Exception:  # No number; a counter of it has no value.
        return None


def quantities(values: Any) -> Iterator[float]:
    """The numbers in a number, an array or another iterable; what is no number is left out."""
    try:
        if hasattr(values, "tolist"):  # At once, for one by one an array takes ten times as long.
            flat = values.detach() if hasattr(values, "detach") else values
            values = flat.reshape(-1).tolist()
        elif isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
            values = (values,)
        for value in values:
            found = quantity(value)
            if isinstance(found, float):
                yield found
    except Exception:  # A device that is lost, or somebody's __iter__.
        return


def cut(value: str, longest: int) -> str:
    """``value``, or its beginning when it is longer."""
    return value if len(value) <= longest else value[: longest - 1] + "…"


def annotation(value: object) -> bytes:
    """The value of a debug annotation (see DebugAnnotation in Perfetto's track_event.proto)."""
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return number(4, value)
    if isinstance(value, float):
        return double(5, value)
    return text(6, cut(value if isinstance(value, str) else _brief(value), ARGUMENT))


def _brief(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 4096:  # str() takes long, or refuses.
        return f"an integer of {value.bit_length()} bits"
    return str(value)
