"""Styles as terminal colours.

The sixteen named colours only: they follow the reader's own theme, light or dark. Painting by
hand keeps rich out of the run: a rich table takes 3 ms a frame, these rows a tenth of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instruments.dash.drawing import TIMES, Line

#: Style name -> SGR parameters: attribute first, colour second, so that one can be left out.
STYLES: dict[str, tuple[str, str]] = {
    "": ("", ""),
    "title": ("1", ""),
    "rule": ("2", ""),
    "rest": ("2", ""),
    "dim": ("2", ""),
    "task": ("1", ""),
    "label": ("", ""),
    "value": ("1", ""),
    "progress": ("", "36"),
    "done": ("", "32"),
    "loss": ("", "35"),
    "rate": ("", "36"),
    "loading": ("", "33"),
    "load": ("", "32"),
    "memory": ("", "32"),
    "hot": ("", "33"),
    "bad": ("1", "31"),
}

_ASCII = str.maketrans(f"━╾─▁▂▃▄▅▆▇{TIMES}…°", "##-_.:-=+*x~ ")
_COLOURLESS = frozenset({"vt52", "vt100", "vt102", "vt220", "vt320", "xterm-mono"})


@dataclass(frozen=True)
class Palette:
    """What the terminal can show: colours or none, Unicode or ASCII."""

    colour: bool = True
    unicode: bool = True

    @classmethod
    def of(cls, environ: Mapping[str, str], encoding: str | None) -> Palette:
        """What ``NO_COLOR``, ``FORCE_COLOR``, ``TERM`` and the encoding allow, in this order."""
        able = environ.get("TERM") not in _COLOURLESS or bool(environ.get("FORCE_COLOR"))
        utf = (encoding or "").lower().replace("-", "").startswith("utf")
        return cls(colour=able and not environ.get("NO_COLOR"), unicode=utf)

    def paint(self, line: Line) -> bytes:
        """One row as bytes for the terminal; it starts and ends with default attributes."""
        text = "".join(self._span(text, style) for text, style in line if text)
        if self.unicode:
            return text.encode("utf-8", "replace")
        return text.translate(_ASCII).encode("ascii", "replace")

    def _span(self, text: str, style: str) -> str:
        attribute, colour = STYLES[style]
        codes = ";".join(filter(None, (attribute, colour if self.colour else "")))
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text
