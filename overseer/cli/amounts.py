"""Numbers of a record as people read them; what is no number gives nothing to show."""

from __future__ import annotations

import math
from typing import Any

from ..record.numbers import as_number

_GIB = 1024.0**3


def number(value: Any) -> float | None:
    """``value`` when it is a finite number."""
    found = as_number(value)
    return found if found is not None and math.isfinite(found) else None


def figure(value: Any) -> str | None:
    """A number with four digits: ``0.08712``, ``28.41``, ``1,412``, ``NaN``."""
    found = as_number(value)
    if found is None:
        return None
    if not math.isfinite(found):
        return str(value) if isinstance(value, str) else str(found)
    if abs(found) >= 999.5:
        return f"{found:,.0f}" if abs(found) < 1e9 else f"{found:.3g}"
    return f"{found:.4g}"


def rates(*values: Any) -> list[str]:
    """Figures that stand side by side, all with the decimals that the smallest needs."""
    found = [value for value in map(number, values) if value is not None]
    if not found:
        return []
    sizes = [abs(value) for value in found if value] or [0.0]
    size = min(sizes)
    decimals = (
        0 if size >= 100 else 1 if size >= 10 or max(sizes) >= 1000 else 2 if size >= 1 else 3
    )
    return [f"{value:,.{decimals}f}" for value in found]


def count(value: Any, singular: str, plural: str | None = None) -> str | None:
    """``1 step``, ``1,875 steps``."""
    found = number(value)
    if found is None:
        return None
    return f"{found:,.0f} {singular if found == 1 else plural or singular + 's'}"


def percent(fraction: Any) -> str | None:
    """A fraction of one; not rounded to 0 or 100 when it is neither."""
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


def gibibytes(value: Any, total: Any = None) -> str | None:
    """Bytes in GiB, of a total when there is one: ``2.1 GiB``, ``9.2/128 GiB``."""
    found, whole = number(value), number(total)
    if found is None:
        return None
    return f"{_in_gib(found)}/{_in_gib(whole)} GiB" if whole else f"{_in_gib(found)} GiB"


def _in_gib(count: float) -> str:
    size = count / _GIB
    return f"{size:.2g}" if size < 0.095 else f"{size:.1f}" if size < 99.95 else f"{size:.0f}"
