"""Text measured in terminal cells: cleaned, fitted and joined, so that no row ever wraps."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def clean(text: str) -> str:
    """``text`` on one line, without anything a terminal would obey.

    Values come from the script: an escape sequence in one must never reach the screen.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_harmless(char) for char in text)


def _harmless(char: str) -> str:
    if char in "\t\n\r":
        return " "
    # Controls, surrogates and format characters (bidi marks, joiners) have no reliable width.
    return "" if unicodedata.category(char).startswith("C") else char


def width(text: str) -> int:
    """How many cells ``text`` takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, room: int) -> str:
    """``text``, or as much of it as fits into ``room`` cells with an ellipsis."""
    if width(text) <= room:
        return text
    if room < 1:
        return ""
    kept, used = [], 0
    for char in text:
        used += _cells(char)
        if used > room - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def left(text: str, room: int) -> str:
    """``text`` in exactly ``room`` cells, against the left edge."""
    text = clip(text, room)
    return text + " " * (room - width(text))


def right(text: str, room: int) -> str:
    """``text`` in exactly ``room`` cells, against the right edge."""
    text = clip(text, room)
    return " " * (room - width(text)) + text


def join(pieces: Iterable[str], room: int, gap: str = "  ") -> str:
    """The leading ``pieces`` that fit whole into ``room`` cells; the first one is clipped."""
    line = ""
    for piece in filter(None, pieces):
        longer = line + gap + piece if line else piece
        if width(longer) > room:
            return line or clip(piece, room)
        line = longer
    return line
