"""Draws the dashboard of an imagined run: ``python docs/images/draw.py`` writes ``dash.svg``."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "views" / "dash"))

from rich.console import Console  # noqa: E402
from rich.text import Text  # noqa: E402
from runs import training  # noqa: E402

from overseer.views.dash.layout import height, lay_out  # noqa: E402
from overseer.views.dash.text import STYLES  # noqa: E402

COLUMNS, ROWS = 110, 36
PRINTED = [f"epoch {n}: accuracy 0.97{n}" for n in range(25, 37)]
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
#: Rich would fetch its font from the network; a reader's own monospace font does as well.
FONTS = "Menlo, Consolas, DejaVu Sans Mono,"


def rich_style(name: str) -> str:
    """A style as rich names it."""
    attribute, colour = STYLES[name]
    words = {"1": "bold", "2": "dim", "": ""}[attribute]
    return f"{words} {COLOURS[int(colour) - 30] if colour else ''}".strip()


def drawn() -> str:
    """The picture in the README."""
    console = Console(file=io.StringIO(), width=COLUMNS, record=True, force_terminal=True)
    lines = lay_out(training(), COLUMNS, height(ROWS))
    console.print("$ voir --dash main.py --epochs 60", highlight=False)
    for text in PRINTED[-(ROWS - len(lines) - 1) :]:
        console.print(Text(text))
    for line in lines:
        console.print(Text.assemble(*((text, rich_style(style)) for text, style in line)))
    picture = console.export_svg(title="voir --dash main.py", unique_id="dash")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return picture.replace("Fira Code,", FONTS)


if __name__ == "__main__":
    (HERE / "dash.svg").write_text(drawn(), encoding="utf-8")
