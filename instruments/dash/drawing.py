"""Bars and sparklines as styled text; a line is a tuple of spans."""

from __future__ import annotations

import math
from collections.abc import Sequence

from instruments.dash.cells import clip, width
from instruments.dash.series import spread, squeeze

#: A piece of text and the name of its style (see ``paint.py``).
Span = tuple[str, str]
Line = tuple[Span, ...]

BLANK: Line = ()
#: Without the full block: rows one above the other would run together.
_STEPS = "▁▂▃▄▅▆▇"
#: Marks a point that is not finite, and counts.
TIMES = "\N{MULTIPLICATION SIGN}"
_HEADROOM = 1.5


def bar(fraction: float, room: int, style: str) -> Line:
    """A horizontal bar in exactly ``room`` cells, filled in half cells.

    Heavy against light lines: the two parts differ without colour, too.
    """
    fraction = min(1.0, max(0.0, fraction)) if math.isfinite(fraction) else 0.0
    halves = int(fraction * room * 2)
    full, half = divmod(halves, 2)
    filled = "━" * full + "╾" * half
    return (filled, style), ("─" * (room - full - half), "rest")


def sparkline(
    points: Sequence[float],
    room: int,
    style: str,
    floor: float | None = None,
    through: float | None = None,
) -> Line:
    """The history in exactly ``room`` cells, growing from the left.

    Args:
        floor: The value of the lowest line, and then the highest stays off the top: for figures
            that should look steady. Left out, the graph reaches from the lowest point to the top.
        through: The part of the run that the history covers, so that it ends below the end of a
            progress bar of the same width; left out, it takes the cells it needs.
    """
    cells = squeeze(points, room) if through is None else _spread(points, room, through)
    finite = [value for value in cells if math.isfinite(value)]
    low = min(finite, default=0.0) if floor is None else floor
    reach = (max(finite, default=0.0) - low) * (1.0 if floor is None else _HEADROOM)
    drawn = "".join(_cell(value, low, reach) for value in cells)
    return _marked(drawn, style) + ((" " * (room - len(cells)), ""),)


def _spread(points: Sequence[float], room: int, through: float) -> list[float]:
    return spread(points, min(room, max(1, round(through * room)))) if points else []


def _cell(value: float, low: float, reach: float) -> str:
    if not math.isfinite(value):
        return TIMES
    if not 0 < reach < math.inf:
        return _STEPS[0]
    part = min(1.0, max(0.0, (value - low) / reach))
    return _STEPS[min(len(_STEPS) - 1, int(part * len(_STEPS)))]


def _marked(drawn: str, style: str) -> Line:
    spans: list[Span] = []
    for index, part in enumerate(drawn.split(TIMES)):
        if index:
            spans.append((TIMES, "bad"))
        if part:
            spans.append((part, style))
    return tuple(spans)


def length(line: Line) -> int:
    """How many cells ``line`` takes."""
    return sum(width(text) for text, _ in line)


def cut(line: Line, room: int) -> Line:
    """``line`` cut off at ``room`` cells."""
    if length(line) <= room:
        return line
    kept = []
    for text, style in line:
        kept.append((clip(text, room), style))
        room -= width(kept[-1][0])
    return tuple(kept)


def plain(line: Line) -> str:
    """``line`` without its styles and trailing spaces."""
    return "".join(text for text, _ in line).rstrip()
