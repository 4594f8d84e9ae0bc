"""The columns that all rows share: label, graph, value, detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instruments.dash.cells import join, left, right
from instruments.dash.drawing import Line

#: Below this many columns there is no room for words at the right.
NARROW = 60
_WIDE, _WIDEST = 100, 140


@dataclass(frozen=True)
class Grid:
    """The columns' widths in a terminal of ``columns``.

    The last column stays free: a character there would leave the cursor about to wrap.
    """

    columns: int

    @property
    def width(self) -> int:
        """The most cells a row may take."""
        return self.columns - 1

    @property
    def narrow(self) -> bool:
        """Whether there is no detail column."""
        return self.columns < NARROW

    @property
    def label(self) -> int:
        """Cells for the name of a row."""
        return 12 if self.columns >= _WIDE else 10

    @property
    def value(self) -> int:
        """Cells for the figure itself; a narrow window has the most useful detail there, too."""
        return 14 if self.narrow else 9

    @property
    def detail(self) -> int:
        """Cells for the words at the right."""
        if self.narrow:
            return 0
        most = 66 if self.columns >= _WIDEST else 46 if self.columns >= _WIDE else 34
        return min(most, self.columns - 34)

    @property
    def graph(self) -> int:
        """Cells for bars and sparklines: what is left."""
        taken = 1 + self.label + 1 + self.value + (0 if self.narrow else 2 + self.detail)
        return max(0, self.width - 1 - taken)

    def row(self, label: str, style: str, graph: Line, value: str, detail: Line = ()) -> Line:
        """One row; ``graph`` is as wide as its column, ``detail`` at most as wide as its own."""
        name = (f" {left(label, self.label)} ", style)
        figure = (right(value, self.value + 1), "value")
        words = () if self.narrow or not detail else (("  ", ""), *detail)
        return (name, *graph, figure, *words)

    def words(self, pieces: Sequence[str], taken: int = 0) -> Line:
        """The leading ``pieces`` that fit into the detail column after ``taken`` cells of it."""
        return ((join(pieces, self.detail - taken), "dim"),)
