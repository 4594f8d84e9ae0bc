"""Puts a page together: text and tables in HTML, charts as JSON that a script in the page draws."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import NamedTuple

from ...errors import clean
from ...model.facts import duration, figure, size
from ..text import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..text import Piece, Row

#: What the x axis of a chart shows.
OVER_STEPS, OVER_TIME, OVER_ROUNDS = "step", "time", "round"
#: Rows of a table, and characters of a cell.
MOST_ROWS, MOST_TEXT = 400, 1000
#: Digits of a number in the page's JSON.
DIGITS = 5
_HERE = Path(__file__).parent
_NO_REQUESTS = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class DrawnLine(NamedTuple):
    """A line of a chart: its places and values, which are finite."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class Chart(NamedTuple):
    """A chart.

    Attributes:
        title: Its title.
        x: ``step``, ``time`` (seconds) or ``round``.
        unit: Of the values: ``s``, ``B``, ``B/s``, ``items/s``, ``%``, ...; ``1`` for numbers.
        lines: Its lines.
        log: It has a button for a logarithmic scale.
        smooth: It has a button for smoothing.
        stack: The lines are shares of a whole.
        points: Points without lines.
        marks: Pauses are marked.
    """

    title: str
    x: str
    unit: str
    lines: Sequence[DrawnLine]
    log: bool = False
    smooth: bool = False
    stack: bool = False
    points: bool = False
    marks: bool = False


def text(value: object) -> str:
    """Any text as HTML: without what a terminal would obey, and escaped."""
    return escape(clean(value))


def section(title: str, *content: str) -> str:
    """A section with a heading; empty without content."""
    inner = "".join(content)
    return f"<section><h2>{text(title)}</h2>{inner}</section>" if inner else ""


def rows_table(caption: str, rows: Iterable[Row]) -> str:
    """Labelled rows, as the summary has them."""
    kept, made = [row for row in rows if row.pieces], []
    for row in kept[:MOST_ROWS]:
        sub = ' class="sub"' if row.depth else ""
        label = text(cut(row.label.lstrip("└ "), MOST_TEXT))
        first = f'<th scope="row">{label}</th>' if label else "<td></td>"
        made.append(f"<tr{sub}>{first}<td>{pieces(row.pieces)}</td></tr>")
    return _table(caption, made, 2, left=len(kept) - len(made))


def pieces(shown: Sequence[Piece]) -> str:
    """Styled pieces of text."""
    made = [
        f'<span class="{piece.style or "plain"}">{text(cut(piece.text, MOST_TEXT))}</span>'
        for piece in shown[:MOST_ROWS]
    ]
    left = len(shown) - len(made)
    return " · ".join([*made, f"and {left:,} more"] if left else made)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()
) -> str:
    """A table of texts; empty without rows.

    Args:
        caption: What it has, for who cannot see the heading above it.
        head: The columns' names.
        rows: The texts of their cells, which are escaped here; the first one names the row.
        right: The places of columns of numbers.
    """
    classes = [' class="n"' if at in right else "" for at in range(len(head))]
    names = "".join(
        f'<th scope="col"{c}>{text(name)}</th>' for c, name in zip(classes, head, strict=True)
    )
    every, made = [*rows], []
    for row in every[:MOST_ROWS]:
        first, *cells = (
            f"{c}>{text(cut(cell, MOST_TEXT))}" for c, cell in zip(classes, row, strict=True)
        )
        rest = "".join(f"<td{cell}</td>" for cell in cells)
        made.append(f'<tr><th scope="row"{first}</th>{rest}</tr>')
    left = len(every) - len(made)
    return _table(caption, made, len(head), f"<thead><tr>{names}</tr></thead>", left)


def _table(caption: str, rows: Sequence[str], columns: int, head: str = "", left: int = 0) -> str:
    more = f'<tr><td colspan="{columns}">and {left:,} more</td></tr>' if left > 0 else ""
    kind = ' class="plain"' if head else ""
    return (
        f'<div class="scroll"><table{kind}><caption>{text(caption)}</caption>{head}'
        f"<tbody>{''.join(rows)}{more}</tbody></table></div>"
        if rows
        else ""
    )


def page(
    title: str,
    body: Sequence[str],
    charts: Sequence[Chart],
    times: tuple[Sequence[float], Sequence[float]] = ((), ()),
    pauses: Sequence[tuple[int, float, float]] = (),
) -> str:
    """The whole page.

    Args:
        title: Its title.
        body: Its sections, as HTML; ``None`` stands for the place of the charts.
        charts: The charts.
        times: Steps, and their seconds from the run's start.
        pauses: Pauses to mark: the step, the start and the end in seconds.
    """
    data = {
        "charts": [_spec(number, chart) for number, chart in enumerate(charts)],
        "times": {OVER_STEPS: _numbers(times[0]), OVER_TIME: _numbers(times[1])},
        "pauses": [[step, *_numbers(ends)] for step, *ends in pauses],
    }
    # "<" would end the script's element, wherever it stands in a name.
    packed = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    draws = "".join(
        f"<script>{(_HERE / name).read_text('utf-8')}</script>"
        for name in ("uPlot.iife.min.js", "page.js")
    )
    styles = "".join((_HERE / name).read_text("utf-8") for name in ("uPlot.min.css", "page.css"))
    licence = (_HERE / "uPlot.LICENSE").read_text("utf-8").replace("--", "- -")
    scripts = f'<script type="application/json" id="data">{packed}</script>{draws}'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NO_REQUESTS}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{styles}</style></head><body><main>"
        f"{''.join(body)}</main>"
        f"<!-- Charts are drawn by uPlot. {licence} -->{scripts if charts else ''}</body></html>\n"
    )


def figures(charts: Sequence[Chart]) -> str:
    """The places of charts, each with a table of its lines for who cannot see it."""
    made = [
        f'<figure id="chart{number}" role="group" aria-label="{text(chart.title)}">'
        f"<figcaption><h3>{text(chart.title)} {_axes(chart)}</h3>"
        '<span class="controls"></span></figcaption>'
        '<div class="plot"></div><div class="legend" aria-hidden="true"></div>'
        f"<details><summary>as a table</summary>{_extent(chart)}</details></figure>"
        for number, chart in enumerate(charts)
    ]
    missing = "<noscript><p>The charts need JavaScript; their tables do not.</p></noscript>"
    hint = (
        '<p class="dim noprint drawn">Drag to zoom, double-click for the whole, Shift-drag to pan, '
        "Shift-wheel to zoom. All charts follow.</p>"
    )
    return f'{missing}{hint}<div class="charts">{"".join(made)}</div>' if made else ""


def _axes(chart: Chart) -> str:
    """What the axes show: the unit, unless the axis has it, and the kind of x."""
    plain = chart.unit in ("s", "1") or chart.unit.startswith("B")
    unit = "" if plain else f"{text(chart.unit)} "
    return f'<small class="dim">{unit}by {chart.x}</small>'


def _extent(chart: Chart) -> str:
    rows = [
        [
            line.label,
            *(value_text(value, chart.unit) for value in (line.y[0], min(line.y), max(line.y))),
            value_text(line.y[-1], chart.unit),
        ]
        for line in chart.lines
        if line.y
    ]
    names = ["line", "first", "least", "greatest", "last"]
    return table(chart.title, names, rows, (1, 2, 3, 4))


def value_text(value: float, unit: str) -> str:
    """A value with its unit."""
    if unit.startswith("B"):
        return f"{size(value)}{unit[1:]}"
    if unit == "s":
        return duration(value) or ""
    return f"{figure(value)}{'' if unit == '1' else f' {unit}'}"


def _spec(number: int, chart: Chart) -> dict[str, Any]:
    made: dict[str, Any] = {
        "number": number,
        "x": chart.x,
        "unit": clean(chart.unit),
        "lines": [
            {"label": clean(line.label), "x": _numbers(line.x), "y": _numbers(line.y)}
            for line in chart.lines
        ],
    }
    flags: Mapping[str, bool] = {
        name: getattr(chart, name) for name in ("log", "smooth", "stack", "points", "marks")
    }
    return made | {name: True for name, set_ in flags.items() if set_}


def _numbers(values: Sequence[float]) -> list[float]:
    return [_short(value) for value in values]


def _short(value: float) -> float:
    """With few digits; steps, which are whole, stay as they are."""
    if value == int(value) and abs(value) < 1 << 53:
        return int(value)
    return float(f"{value:.{DIGITS}g}")
