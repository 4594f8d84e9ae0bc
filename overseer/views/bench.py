"""A bench as text: a line for each process, a table of its sides, and the verdict."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import clean
from ..model.facts import change, changes, duration, figure, rates, size
from .text import TO, Layout, Piece, cells, cut, row, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Verdicts by style.
_STYLES = {"regression": "bad", "improvement": "good", "no difference": "good",
    "nothing measured": "bad", "inconclusive": "warn",
    "accept": "good", "reject": "bad"}  # fmt: skip
#: Characters of a side's label that are always shown.
_LEAST = 8


class SideFigures(NamedTuple):
    """A row of the table.

    Attributes:
        name: Of the side.
        label: What distinguishes it.
        values: Those that count.
        ratio: Against the reference; None for the reference.
        interval: Its interval; None if not known.
    """

    name: str
    label: str
    values: Sequence[float]
    ratio: float | None = None
    interval: tuple[float, float] | None = None


def text_of(value: float, unit: str) -> str:
    """A value with its unit, for people."""
    if unit.endswith("/s"):
        return f"{rates(value)[0]} {clean(unit)}"
    known = {"s": duration, "B": size}.get(unit)
    if known is not None:
        return known(value) or ""
    return f"{figure(value)}{'' if unit == '1' else f' {clean(unit)}'}"


def line(name: str, number: int, seconds: float, value: str, notes: Iterable[str]) -> str:
    """One line for a process that has ended."""
    first = f"  {number:>4}  {name:<3} {duration(seconds) or '':>8}  {value}"
    return " · ".join([first, *map(clean, notes)]).rstrip() + "\n"


def sides_table(sides: Sequence[SideFigures], unit: str, width: int) -> str:
    """The table of the sides: means, ranges, and what each is against the reference.

    Labels are cut so that its lines fit into ``width``.
    """
    rows = [["  side", "", "mean", "range", "n", "against A (95 % interval)"], *_rows(sides, unit)]
    if len(sides) == 1:
        rows = [each[:-1] for each in rows]
    right = [False, False, True, True, True, False][: len(rows[0])]
    over = max(map(cells, table(rows, right).splitlines())) - width
    longest = max(cells(each[1]) for each in rows)
    rows = [
        [each[0], cut(each[1], max(longest - max(over, 0), _LEAST)), *each[2:]] for each in rows
    ]
    return table(rows, right)


def _rows(sides: Sequence[SideFigures], unit: str) -> Iterator[list[str]]:
    for side in sides:
        values, mean = side.values, _mean(side.values)
        against = change(side.ratio) if side.ratio is not None else ""
        if side.interval is not None:
            against += f" ({changes(side.interval)})"
        ends = f"{_bare(min(values), unit)}{TO}{_bare(max(values), unit)}" if values else ""
        shown = text_of(mean, unit) if mean is not None else "-"
        yield [f"  {side.name}", clean(side.label), shown, ends, str(len(values)), against]


def _bare(value: float, unit: str) -> str:
    return rates(value)[0] if unit.endswith("/s") else text_of(value, unit)


def _mean(values: Sequence[float]) -> float | None:
    from ..model.comparison import middle

    return middle(values) if values else None


def conclusion(
    verdicts: Sequence[tuple[str, str]], rules: str, notes: Sequence[str], more: Sequence[str],
    width: int, colour: bool,
) -> str:  # fmt: skip
    """The verdicts, the rule that they follow, reasons for doubt, and what to do next.

    Args:
        verdicts: For each side its verdict, with its name before it if there are several; and why.
        rules: Metric, threshold and sample.
        notes: Reasons for doubt.
        more: Commands that show more.
        width: The terminal's.
        colour: Whether it has colours.
    """
    rows = []
    for index, (verdict, why) in enumerate(verdicts):
        style = _STYLES.get(verdict.rpartition(": ")[2], "bold")
        rows.append(row("" if index else "verdict", Piece(verdict, style), clean(why)))
    rows.append(row("", clean(rules)))
    rows += [row("" if index else "but", clean(note)) for index, note in enumerate(notes)]
    rows += [row("" if index else "next", each) for index, each in enumerate(more)]
    return Layout(width, colour).text(rows)
