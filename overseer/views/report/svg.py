"""Drawings as SVG: a histogram, and a map of ranks and steps."""

from __future__ import annotations

from html import escape

from ...model.facts import count as plural
from ...model.facts import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDE, _HIGH, _LEFT, _UNDER = 640, 130, 60, 18
#: Shades of a map, from the median to the greatest value.
_SHADES = 8
_ROW = 14


def histogram(edges: Sequence[float], counts: Sequence[int]) -> str:
    """Bars: how many steps took how long. The heights are square roots, so that few are seen too.

    Args:
        edges: Of the bars, in seconds; one more than there are bars.
        counts: The number of steps in each.
    """
    most, wide = max(counts), _WIDE / len(counts)
    bars = []
    for at, count in enumerate(counts):
        if count:
            high = max(_HIGH * (count / most) ** 0.5, 2)
            label = f"{plural(count, 'step')} of {duration(edges[at])} to {duration(edges[at + 1])}"
            bars.append(
                f'<rect x="{at * wide:.1f}" y="{_HIGH - high:.1f}" width="{max(wide - 1, 1):.1f}" '
                f'height="{high:.1f}" fill="var(--line0)"><title>{label}</title></rect>'
            )
    texts = []
    for share in range(5):
        at = share * (len(edges) - 1) // 4
        anchor = ("start", "middle", "middle", "middle", "end")[share]
        shown = escape(duration(edges[at]) or "0")
        texts.append(
            f'<text x="{at * wide:.0f}" y="{_HIGH + 14}" text-anchor="{anchor}">{shown}</text>'
        )
    title = f"times of {sum(counts):,} steps, heights as square roots"
    size = f'viewBox="0 0 {_WIDE} {_HIGH + _UNDER}" width="{_WIDE}"'
    return f'<svg {size} role="img" aria-label="{title}">{"".join(bars + texts)}</svg>'


def heat_map(ranks: Sequence[str], values: Sequence[Sequence[float]], first: str, last: str) -> str:
    """A row a rank, a column a run of steps: the darker, the longer its steps took.

    Args:
        ranks: The names of the rows.
        values: For each row, its values in seconds; rows may differ in length.
        first: What the first column is.
        last: What the last one is.
    """
    known = sorted(value for row in values for value in row)
    if not known:
        return ""
    low, high = known[len(known) // 2], known[min(len(known) - 1, len(known) * 995 // 1000)]
    columns = max(map(len, values))
    wide = (_WIDE - _LEFT) / columns
    paths = [list[str]() for _ in range(_SHADES + 1)]
    for at, row in enumerate(values):
        for column, value in enumerate(row):
            share = (value - low) / (high - low) if high > low else 0.0
            shade = round(_SHADES * min(max(share, 0.0), 1.0))
            x, y = _LEFT + column * wide, at * _ROW
            paths[shade].append(f"M{x:.1f} {y}h{wide + 0.2:.1f}v{_ROW - 1}H{x:.1f}z")
    cells = "".join(
        f'<path d="{"".join(parts)}" fill="var(--line1)" '
        f'fill-opacity="{0.08 + 0.92 * shade / _SHADES:.2f}"/>'
        for shade, parts in enumerate(paths)
        if parts
    )
    names = "".join(
        f'<text x="0" y="{at * _ROW + 11}">{escape(name)}</text>' for at, name in enumerate(ranks)
    )
    under = len(values) * _ROW + 12
    ends = (
        f'<text x="{_LEFT}" y="{under}">{escape(first)}</text>'
        f'<text x="{_WIDE}" y="{under}" text-anchor="end">{escape(last)}</text>'
    )
    label = f"times of steps by rank, from {duration(low)} (light) to {duration(high)} (dark)"
    size = f'viewBox="0 0 {_WIDE} {under + 4}" width="{_WIDE}"'
    return f'<svg {size} role="img" aria-label="{label}">{cells}{names}{ends}</svg>'
