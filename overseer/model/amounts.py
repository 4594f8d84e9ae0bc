"""Formats numbers for people, the same in every view; other values give None."""

from __future__ import annotations

from .facts import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def figure(value: Any) -> str | None:
    """A number with four digits: ``0.08712``, ``28.41``, ``1,412``, ``NaN``."""
    found = number(value)
    if found is None:  # NaN and the infinities are strings in JSON.
        return str(value) if isinstance(value, float) or value in _NO_NUMBERS else None
    if abs(found) >= 999.5:
        return f"{found:,.0f}" if abs(found) < 1e9 else f"{found:.3g}"
    return f"{found:.4g}"


_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


def rates(*values: Any) -> list[str]:
    """Format figures shown side by side, with the decimals that the smallest needs."""
    found = [value for value in map(number, values) if value is not None]
    sizes = [abs(value) for value in found if value] or [0.0]
    least, most = min(sizes), max(sizes)
    decimals = 0 if least >= 100 else 1 if least >= 10 or most >= 1000 else 2 if least >= 1 else 3
    return [f"{value:,.{decimals}f}" for value in found]


def count(value: Any, singular: str, plural: str | None = None) -> str | None:
    """``1 step``, ``1,875 steps``."""
    found = number(value)
    if found is None:
        return None
    return f"{found:,.0f} {singular if found == 1 else plural or singular + 's'}"


def percent(fraction: Any) -> str | None:
    """A fraction as a percentage; only 0 and 1 are shown as 0 % and 100 %."""
    found = number(fraction)
    if found is None:
        return None
    whole = 100 * found
    if 0 < whole < 0.95:
        return f"{whole:.2g} %"
    return f"{whole:.1f} %" if 99.05 <= whole < 99.95 else f"{whole:.0f} %"


def duration(value: Any) -> str | None:
    """Seconds as ``3.1 ms``, ``42.3 s``, ``12 min 05 s`` or ``3 h 12 min``."""
    seconds = number(value)
    if seconds is None:
        return None
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.00995 else f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def size(value: Any, total: Any = None) -> str | None:
    """Bytes, optionally with a total: ``640 MiB``, ``9.2/128 GiB``."""
    found, whole = number(value), number(total) or None
    if found is None:
        return None
    power = next((p for p in (4, 3, 2, 1) if abs(whole or found) >= 999.5 * 1024 ** (p - 1)), 0)
    shown = [f"{round(each / 1024**power, 3):.3g}" for each in (found, whole) if each is not None]
    return f"{'/'.join(shown)} {_UNITS[power]}"
