"""Text for a terminal: labelled rows of short pieces, wrapped between pieces, and tables.

Also finds what a stream can show; no other file reads NO_COLOR, FORCE_COLOR, TERM and CI.
"""

from __future__ import annotations

import re

from ..errors import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

GAP = " · "
#: Between the ends of a range: an en dash, unlike a minus sign.
TO = "\u2013"
_ASCII = str.maketrans({"·": "|", "→": ">", TO: "-", "█": "#", "▒": ":", "└": "`", "…": "~"})
#: Characters one cell wide: nearly all that are drawn.
_NARROW = re.compile("[ -~\u2013\u2192\u2500-\u259f\u2800-\u28ff·\u00d7…°]*")
#: Values of CI that mean no.
_NO = ("", "0", "false")
_COLOURLESS = frozenset({"dumb", "vt52", "vt100", "vt102", "vt220", "vt320", "xterm-mono"})
_STYLES = {"": "", "bold": "1", "dim": "2", "good": "32", "warn": "33", "bad": "1;31"}


class Piece:
    """Words in one style that stay on one line if they fit."""

    def __init__(self, text: str, style: str = "") -> None:
        self.text, self.style = text, style


class Row:
    """A label and its pieces; a row without pieces is not shown.

    Args:
        label: The row's, in ``style``.
        pieces: Its text.
        depth: 1 for a row that belongs to the one above it.
        style: The label's.
        optional: Above 0 if the row may be omitted, the highest first.
    """

    def __init__(
        self, label: str, *pieces: Piece | str | None, depth: int = 0, style: str = "bold",
        optional: int = 0,
    ) -> None:  # fmt: skip
        given = [Piece(each) if isinstance(each, str) else each for each in pieces if each]
        self.pieces = [piece for piece in given if piece.text]
        self.label, self.depth, self.style, self.optional = label, depth, style, optional


row = Row


class Layout:
    """Lays rows out in ``width`` cells.

    Args:
        width: The terminal's; only a single longer word exceeds it.
        colour: Whether to style text with escape sequences.
        column: The column where a row's text begins.
    """

    def __init__(self, width: int, colour: bool = False, column: int = 12) -> None:
        self._width, self._colour, self._column = max(width, 40), colour, column

    def fitted(self, rows: Iterable[Row], most: int) -> list[Row]:
        """The rows that fit into ``most`` lines, without the most optional ones."""
        kept = [(len(self._row(row)), row) for row in rows if row.pieces]
        while sum(lines for lines, _ in kept) > most:
            optional, last = max(
                ((row.optional, i) for i, (_, row) in enumerate(kept)), default=(0, 0)
            )
            if not optional:
                break
            del kept[last]
        return [row for _, row in kept]

    def text(self, rows: Iterable[Row]) -> str:
        """The rows as lines, each ended by a newline."""
        lines = [line for row in rows if row.pieces for line in self._row(row)]
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def head(self, label: str, pieces: Iterable[Piece]) -> str:
        """A first line without indent, wrapped if it is too long."""
        lines = self._wrapped(self._paint(label, "bold") + " ", cells(label) + 1, pieces)
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def _row(self, row: Row) -> list[str]:
        indent = "  " * (row.depth + 1)
        used = len(indent) + cells(row.label)
        start = indent + self._paint(row.label, row.style)
        start += " " * max(self._column - used, 1)
        return self._wrapped(start, max(self._column, used + 1), row.pieces)

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
        """``text`` wrapped, the first line after ``used`` cells; long words stay whole."""
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


def table(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Lay out rows of cells; the first row has the columns' names.

    Args:
        rows: The texts of their cells.
        right: For each column, whether it is right-aligned.
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines = []
    for texts in rows:
        spaces = [" " * (width - cells(text)) for width, text in zip(widths, texts, strict=True)]
        padded = [s + t if r else t + s for s, t, r in zip(spaces, texts, right, strict=True)]
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def cut(text: object, most: int) -> str:
    """``text`` on one line, cut to ``most`` characters with an ellipsis."""
    shown = clean(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def cells(text: str) -> int:
    """The width of ``text`` in terminal cells."""
    if _NARROW.fullmatch(text):
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(combining, text)))


def encodable(text: str, encoding: str | None) -> str:
    """``text`` for a stream; characters that its encoding lacks become ASCII or are escaped."""
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeError:
        text = text.translate(_ASCII)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def coloured(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether to use colours on ``stream``; the first setting that applies decides."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return environ.get("TERM") not in _COLOURLESS and is_terminal(stream, environ)


def is_terminal(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether ``stream`` is an interactive terminal; under CI it is not."""
    if stream is None or environ.get("CI", "") not in _NO:
        return False
    try:
        return stream.isatty()
    except (OSError, ValueError):  # The stream is closed.
        return False
