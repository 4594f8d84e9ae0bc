"""Labelled rows of short pieces, wrapped between pieces so that every width looks meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

GAP = " · "
#: Between the ends of a range: an en dash, which no minus sign is mistaken for.
TO = "\u2013"
_PLAIN = str.maketrans({"·": "|", "→": ">", TO: "-", "█": "#", "▒": ":", "└": "`"})
_STYLES = {"": "", "bold": "1", "dim": "2", "good": "32", "warn": "33", "bad": "1;31"}


class Piece(NamedTuple):
    """A few words that stay together when they fit, in one style."""

    text: str
    style: str = ""


class Row(NamedTuple):
    """A label and what belongs to it; a row without a piece is not shown.

    Attributes:
        depth: 1 for a row that belongs to the one above it.
        spare: Above 0 when it may go where there is too little room, the highest first.
    """

    label: str
    pieces: tuple[Piece, ...]
    depth: int = 0
    style: str = "bold"
    spare: int = 0


def row(
    label: str,
    *pieces: Piece | str | None,
    depth: int = 0,
    style: str = "bold",
    spare: int = 0,
) -> Row:
    """A row of those pieces that there are."""
    given = (Piece(p) if isinstance(p, str) else p for p in pieces if p)
    return Row(label, tuple(piece for piece in given if piece.text), depth, style, spare)


class Layout:
    """Lays rows out in ``width`` cells.

    Args:
        width: Of the terminal; a row is never wider, but for a word that is.
        colour: Whether to style text with escape sequences.
        ascii_only: For a stream that can show nothing else.
        column: Where the text of a row begins.
    """

    def __init__(
        self, width: int, colour: bool, ascii_only: bool = False, column: int = 12
    ) -> None:
        self._width = max(width, 40)
        self._colour = colour
        self._ascii = ascii_only
        self._column = column

    def fitted(self, rows: Iterable[Row], most: int) -> list[Row]:
        """The rows without the most spare ones, so many that ``most`` lines hold them if they can.

        Args:
            rows: What there is to show.
            most: How many lines there are.
        """
        kept = [(len(self._row(row)), row) for row in rows if row.pieces]
        while sum(lines for lines, _ in kept) > most:
            spare, last = max(((row.spare, i) for i, (_, row) in enumerate(kept)), default=(0, 0))
            if not spare:
                break
            del kept[last]
        return [row for _, row in kept]

    def text(self, rows: Iterable[Row]) -> str:
        """The rows as lines, each ended by a newline."""
        lines = [line for row in rows if row.pieces for line in self._row(row)]
        return self._ended(lines)

    def _ended(self, lines: Iterable[str]) -> str:
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        return text.translate(_PLAIN) if self._ascii else text

    def head(self, label: str, pieces: Iterable[Piece]) -> str:
        """A first line that stands out to the left, and what of it does not fit below."""
        lines = self._wrapped(self._paint(label, "bold") + " ", cells(label) + 1, pieces)
        return self._ended(lines)

    def _row(self, row: Row) -> list[str]:
        indent = "  " * (row.depth + 1)
        space = " " * max(self._column - len(indent) - cells(row.label), 1)
        start = indent + self._paint(row.label, row.style) + space
        return self._wrapped(
            start, max(self._column, len(indent) + cells(row.label) + 1), row.pieces
        )

    def _wrapped(self, start: str, used: int, pieces: Iterable[Piece]) -> list[str]:
        lines, margin = [start], " " * self._column
        for index, piece in enumerate(pieces):
            gap = GAP if index else ""
            if index and used + len(gap) + cells(piece.text) > self._width:
                lines.append(margin)
                used, gap = self._column, ""
            first, *rest = self._fitted(piece.text, used + len(gap))
            lines[-1] += self._paint(gap, "dim") + self._paint(first, piece.style)
            lines.extend(margin + self._paint(part, piece.style) for part in rest)
            used = self._column + cells(rest[-1]) if rest else used + len(gap) + cells(first)
        return lines

    def _fitted(self, text: str, used: int) -> list[str]:
        """``text`` in lines that fit, the first after ``used`` cells; a long word stays whole."""
        parts, line = [], ""
        for word in text.split(" "):
            longer = f"{line} {word}" if line else word
            if line and used + cells(longer) > self._width:
                parts.append(line)
                line, used = word, self._column
            else:
                line = longer
        return [*parts, line]

    def _paint(self, text: str, style: str) -> str:
        code = _STYLES[style] if self._colour else ""
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def clean(text: object) -> str:
    """``text`` on one line, without anything that a terminal would obey."""
    kept = str(text)
    if kept.isascii() and kept.isprintable():
        return kept
    from unicodedata import category

    return "".join(char for char in " ".join(kept.split()) if category(char)[0] != "C")


def cells(text: str) -> int:
    """How many cells of a terminal ``text`` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(combining, text)))
