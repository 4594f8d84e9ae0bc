"""Numbers in few cells, and styled lines of exact width."""

from __future__ import annotations

import math

from ..text import cells, coloured, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

    #: A piece of text and the name of its style.
    Span = tuple[str, str]
    Line = tuple[Span, ...]

#: SGR parameters of the styles: attribute and colour. Only the sixteen named colours, which follow
#: the terminal's theme, light or dark.
STYLES: dict[str, tuple[str, str]] = {
    "": ("", ""), "bold": ("1", ""), "dim": ("2", ""), "bad": ("1", "31"),
    "progress": ("", "36"), "done": ("", "32"), "loss": ("", "35"), "rate": ("", "36"),
    "load": ("", "32"), "memory": ("", "34"), "loading": ("", "33"), "forward": ("", "34"),
    "backward": ("", "36"), "optimizer": ("", "32"), "communication": ("", "35"),
    "other": ("2", "37"), "compute": ("", "34"),
}  # fmt: skip
#: The full block of each part on a terminal without colours.
_SHADES = {
    "loading": "░", "forward": "▒", "backward": "▓", "optimizer": "█", "communication": "▞",
    "other": "·", "compute": "▓",
}  # fmt: skip
_BLOCKS = " ▁▂▃▄▅▆▇█"
BLANK, FULL = "\u2800", "█"
TIMES = "\N{MULTIPLICATION SIGN}"
_ASCII = str.maketrans(
    {
        **dict(zip(_BLOCKS + "━╸─│┤└┘·░▒▓▞…°", " ._-~=+*##=-||``-.:%&~ ", strict=True)),
        **{chr(code): "*" for code in range(0x2801, 0x2900)},
        BLANK: " ",
        TIMES: "x",
    }
)
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def number(value: float) -> str:
    """``value`` with four digits, in at most nine cells.

    Trailing zeros stay: figures of changing length would make their row jump.
    """
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if isinstance(value, int) and size < 1_000_000:
        return f"{value:,}"
    for unit, letter in _LARGE:
        if size >= unit:
            return f"{value / unit:.4g}{letter}" if size < 1e15 else f"{value:.2e}"
    if size >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.2e}" if size and size < 1e-3 else f"{value:#.4g}"


def count(value: float) -> str:
    """``value`` without decimals if it is a whole number."""
    return number(int(value)) if math.isfinite(value) and value == int(value) else number(value)


def tick(value: float, digits: int = 3) -> str:
    """``value`` beside an axis, in few cells."""
    size = abs(value)
    if size < 1e15:
        for unit, letter in (*_LARGE, (1e3, "k")):
            if size >= unit * 0.9995:
                return f"{value / unit:.{digits}g}{letter}"
    return f"{value:.{digits}g}" if 1e-2 <= size < 1e15 else f"{value:.2g}"


def clock(seconds: float) -> str:
    """Seconds as ``h:mm:ss``, after days if any."""
    minutes, secs = divmod(round(min(max(0.0, seconds), 999 * 86400.0)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    shown = f"{hours}:{minutes:02d}:{secs:02d}"
    return f"{days} d {shown}" if days else shown


def joined(pieces: Iterable[str], room: int, gap: str = "  ") -> str:
    """The leading ``pieces`` that fit into ``room`` cells, uncut."""
    line = ""
    for piece in filter(None, pieces):
        longer = line + gap + piece if line else piece
        if cells(longer) > room:
            break
        line = longer
    return line


def left(text: str, room: int) -> str:
    """``text`` left-aligned in exactly ``room`` cells."""
    while cells(text) > room:  # Wide characters.
        text = cut(text, min(room, len(text) - 1)) if room > 0 else ""
    return text + " " * (room - cells(text))


def width(line: Line) -> int:
    """The width of a line in cells."""
    return sum(cells(text) for text, _ in line)


def padded(line: Line, room: int) -> Line:
    """``line`` in exactly ``room`` cells, without the spans that do not fit."""
    kept: list[Span] = []
    for text, style in line:
        if cells(text) > room:
            break
        kept.append((text, style))
        room -= cells(text)
    return (*kept, (" " * room, "")) if room > 0 else tuple(kept)


def bar(parts: Sequence[tuple[str, float]], room: int) -> Line:
    """Parts of a whole, by their styles, as one stacked bar in exactly ``room`` cells."""
    spans, used, reached = [], 0, 0.0
    whole = sum(part for _, part in parts) or 1.0
    for style, part in parts:
        reached += part / whole
        end = min(room, round(reached * room))
        spans.append((FULL * (end - used), style))
        used = end
    return tuple(spans)


def gauge(fraction: float, room: int, style: str) -> Line:
    """A horizontal bar in exactly ``room`` cells, filled in half cells."""
    fraction = min(1.0, max(0.0, fraction)) if math.isfinite(fraction) else 0.0
    full, half = divmod(int(fraction * room * 2), 2)
    return ("━" * full + "╸" * half, style), ("─" * (room - full - half), "dim")


def area(values: Sequence[float], room: int, rows: int, style: str) -> list[Line]:
    """Values from 0 to 1 as columns, the latest at the right edge; ``rows`` lines."""
    shown = [min(1.0, max(0.0, v)) if v == v else 0.0 for v in values[-room:]] if room > 0 else []
    # A value fills at least one step, and never the whole top: rows would run together.
    eighths = [max(1, min(8 * rows - 1, round(v * 8 * rows))) for v in shown]
    return [
        (
            (" " * (room - len(shown)), ""),
            ("".join(_BLOCKS[min(8, max(0, each - 8 * row))] for each in eighths), style),
        )
        for row in reversed(range(rows))
    ]


class Palette:
    """The terminal's abilities: colours, Unicode."""

    def __init__(self, colour: bool = True, unicode: bool = True) -> None:
        self.colour, self.unicode = colour, unicode

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Palette:
        """The palette for an environment and a stream's encoding."""
        utf = (stream.encoding or "").lower().replace("-", "").startswith("utf")
        return cls(coloured(stream, environ), utf)

    def paint(self, line: Line) -> bytes:
        """One row as bytes for the terminal; it starts and ends with default attributes."""
        text = "".join(self._span(text, style) for text, style in line if text)
        if self.unicode:
            return text.encode("utf-8", "replace")
        return text.translate(_ASCII).encode("ascii", "replace")

    def _span(self, text: str, style: str) -> str:
        attribute, colour = STYLES[style]
        if not self.colour:
            colour, text = "", text.replace(FULL, _SHADES.get(style, FULL))
        codes = ";".join(filter(None, (attribute, colour)))
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and not text.isspace() else text
