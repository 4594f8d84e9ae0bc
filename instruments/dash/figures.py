"""Numbers as people read them, in few cells and with a steady number of digits."""

from __future__ import annotations

import math

_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_LONGEST = 999 * 86400.0
_GIB = 1024.0**3


def number(value: float) -> str:
    """``value`` with four digits, in at most nine cells.

    Trailing zeros stay: a figure that changes its length makes its whole row restless.
    """
    if not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) < 1_000_000:
        return f"{value:,}"
    size = abs(value)
    for unit, letter in _LARGE:
        if size >= unit:
            return f"{value / unit:.3g}{letter}" if size < 1e15 else f"{value:.2e}"
    if size >= 999.95:
        return f"{value:,.0f}"
    if size and size < 1e-3:
        return f"{value:.2e}"
    return f"{value:#.4g}"


def amount(value: float) -> str:
    """``value`` as a count when it is whole, as progress mostly is."""
    return number(int(value)) if float(value).is_integer() else number(value)


def percent(fraction: float) -> str:
    """A fraction of one as a whole percentage."""
    return f"{min(round(100 * fraction), 9999)} %" if math.isfinite(fraction) else "? %"


def duration(seconds: float) -> str:
    """Seconds as ``h:mm:ss``, with days in front when there are any."""
    minutes, secs = divmod(round(min(max(0.0, seconds), _LONGEST)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    clock = f"{hours}:{minutes:02d}:{secs:02d}"
    return f"{days} d {clock}" if days else clock


def of_total(used: float, total: float) -> str:
    """Bytes used of a total, in GiB."""
    return f"{used / _GIB:.1f}/{total / _GIB:.1f} GiB"


def gibibytes(used: float) -> str:
    """Bytes in GiB."""
    return f"{used / _GIB:.1f} GiB"


def megabytes(count: float) -> str:
    """Bytes in MB, as disks and networks count them; always with one decimal."""
    return f"{count / 1e6:.1f}"
