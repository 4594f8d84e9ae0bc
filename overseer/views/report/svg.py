"""Drawings as SVG: a histogram, a map of ranks and steps, intervals, differences."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

from ...model.facts import change, changes, duration
from ...model.facts import count as plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDE, _HIGH, _LEFT, _UNDER = 640, 130, 60, 18
#: Shades of a map, from the median to the greatest value.
_SHADES = 8
_ROW = 14
#: The height of a side's row, the width of its name, and the greatest ratio that is drawn.
_LANE, _ASIDE, _MOST_RATIO = 30, 100, 10.0
#: Rounding errors are smaller than this.
_ZERO = 1e-9


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
    label = f"{sum(counts):,} steps; the heights of bars are square roots of their numbers"
    return _figure(label, _HIGH + _UNDER, "".join(bars + texts))


def heat_map(ranks: Sequence[str], values: Sequence[Sequence[float]], first: str, last: str) -> str:
    """A row a rank, a column a run of steps: the stronger, the longer its steps took.

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
    shades = f"from {duration(low)} (faint) to {duration(high)} (strong)"
    label = f"times of steps without waits for other ranks, {shades}"
    return _figure(label, under + 4, f"{cells}{names}{ends}")


class DrawnSide(NamedTuple):
    """How a side compares with the reference.

    Attributes:
        name: The side's.
        marks: What each pair is, and its ratio.
        ratio: That of all, None if it is not known.
        interval: Its 95 % interval.
        control: It is the reference once more.
    """

    name: str
    marks: Sequence[tuple[str, float]]
    ratio: float | None
    interval: tuple[float, float]
    control: bool


def intervals(lanes: Sequence[DrawnSide], threshold: float, reference: str) -> str:
    """A row a side: its pairs as circles, its interval as a bar, the threshold as a grey band."""
    ends = [1 - threshold, 1.0, 1 + threshold]
    ends += [end for lane in lanes for end in (*lane.interval, *(r for _, r in lane.marks))]
    low, high = max(min(ends), 0.0), min(max(ends), _MOST_RATIO)
    low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)
    room, bottom = _WIDE - _ASIDE - 20, len(lanes) * _LANE

    def x(ratio: float) -> float:
        return _ASIDE + room * (min(max(ratio, low), high) - low) / (high - low)

    band = x(1 - threshold), x(1 + threshold)
    drawn = [
        f'<rect x="{band[0]:.1f}" y="0" width="{band[1] - band[0]:.1f}" height="{bottom}" '
        'fill="var(--dim)" fill-opacity=".25"/>',
        f'<path d="M{x(1.0):.1f} 0V{bottom}" stroke="var(--dim)"/>',
    ]
    for at, lane in enumerate(lanes):
        middle, colour = at * _LANE + _LANE / 2, f"var(--line{(at + 1) % 10})"
        a, b = map(x, lane.interval)
        told = f"{lane.name}: {changes(lane.interval)} %"
        drawn += [
            f'<text x="0" y="{middle + 4:.0f}">{escape(lane.name)}'
            f"{' (control)' if lane.control else ''}</text>",
            f'<rect x="{a:.1f}" y="{middle - 7:.1f}" width="{max(b - a, 2):.1f}" height="14" '
            f'fill="{colour}" fill-opacity=".3"><title>{escape(told)}</title></rect>',
        ]
        if lane.ratio is not None:
            line = f"M{x(lane.ratio):.1f} {middle - 10:.1f}v20"
            drawn.append(f'<path d="{line}" stroke="{colour}" stroke-width="2"/>')
        for number, (name, ratio) in enumerate(lane.marks):
            y = middle + (number % 5 - 2) * 3  # So that equal ones are beside each other.
            fill = "var(--back)" if lane.control else colour
            drawn.append(
                f'<circle cx="{x(ratio):.1f}" cy="{y:.1f}" r="3" fill="{fill}" stroke="{colour}">'
                f"<title>{escape(name)}: {change(ratio)}</title></circle>"
            )
    for tick in _ticks(low, high):
        percent = f"{round(100 * (tick - 1), 6):+g} %" if abs(tick - 1) > _ZERO else "0 %"
        drawn.append(
            f'<text x="{x(tick):.1f}" y="{bottom + 14}" text-anchor="middle">{percent}</text>'
        )
    label = (
        f"rate against {reference}: a circle is a pair, the bar their 95 % interval, "
        f"the grey band the threshold of {100 * threshold:g} %"
    )
    return _figure(label, bottom + _UNDER, "".join(drawn))


def _ticks(low: float, high: float) -> list[float]:
    """Ratios at round percentages, at most eight of them."""
    width = high - low
    step = next(
        10.0**power * digit
        for power in range(-4, 9)
        for digit in (1, 2, 5)
        if width / (10.0**power * digit) <= 7
    )
    first, last = math.ceil((low - 1) / step), math.floor((high - 1) / step)
    return [1 + at * step for at in range(first, last + 1)]


def differences(parts: Sequence[tuple[str, float]]) -> str:
    """A bar a part: to the right what takes longer, to the left what takes less, in seconds."""
    most = max(abs(seconds) for _, seconds in parts) or 1.0
    zero, room = _WIDE / 2, _WIDE / 2 - 110
    drawn = [f'<path d="M{zero:.0f} 0V{len(parts) * 20}" stroke="var(--dim)"/>']
    for at, (name, seconds) in enumerate(parts):
        wide, y, colour = max(room * abs(seconds) / most, 1), at * 20, int(seconds > 0)
        left = zero if seconds > 0 else zero - wide
        place, anchor = (left + wide + 6, "start") if seconds > 0 else (left - 6, "end")
        shown = f"{'+' if seconds > 0 else '-'}{duration(abs(seconds))}"
        drawn.append(
            f'<text x="0" y="{y + 14}">{escape(name)}</text><rect x="{left:.1f}" y="{y + 3}" '
            f'width="{wide:.1f}" height="14" fill="var(--line{colour})"/>'
            f'<text x="{place:.1f}" y="{y + 14}" text-anchor="{anchor}">{shown}</text>'
        )
    return _figure("change of the mean step, by part", len(parts) * 20, "".join(drawn))


def _figure(label: str, high: float, drawn: str) -> str:
    """A drawing, and below it what it shows."""
    size = f'viewBox="0 0 {_WIDE} {high:.0f}" width="{_WIDE}"'
    drawing = f'<svg {size} role="img" aria-label="{escape(label)}">{drawn}</svg>'
    return f'<figure>{drawing}<figcaption class="dim">{escape(label)}</figcaption></figure>'
