"""Values of any kind as what a trace can hold: small, finished, and without touching a device."""

from __future__ import annotations

import reprlib
from typing import Any

from .wire import double, number, text

#: The longest text of a label, and of an argument's value.
LABEL, ARGUMENT = 200, 1000
#: Arguments of one event; more are left out.
ARGUMENTS = 64
_PLAIN = (str, int, float, bool, type(None))

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = ARGUMENT
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = 20


def label_of(value: object) -> str:
    """``value`` as a label."""
    found = value if isinstance(value, str) else described(value)
    return cut(found if isinstance(found, str) else _brief(found), LABEL)


def settled(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, those that may change or be large described as they are now."""
    for key, value in arguments.items():
        if type(value) not in _PLAIN:
            arguments[key] = described(value)
    return arguments


def described(value: Any) -> Any:
    """A number or a short text for ``value``; it never raises, and waits for no device."""
    try:
        if type(value) in _PLAIN:
            return value
        shape = getattr(value, "shape", None)
        if shape is not None and hasattr(value, "dtype"):
            return _array(value, tuple(shape))
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return kind(value)
        return _repr.repr(value)
    except Exception:  # Somebody's __repr__, or an attribute that is none.
        return f"<{type(value).__name__}>"


def _array(value: Any, shape: tuple[int, ...]) -> object:
    if not shape and _on_host(value):
        return described(value.item())
    return f"{type(value).__name__}{list(shape)} {value.dtype}".replace("torch.", "")


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
            return float(value)
        return float(value.item()) if _on_host(value) else value.detach()
    except Exception:  # No number; a counter of it has no value.
        return None


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
