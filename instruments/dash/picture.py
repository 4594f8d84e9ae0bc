"""Draws the dashboard of an imagined run as SVG, for the documentation.

``python -m instruments.dash.picture docs/images/dash.svg`` writes the picture in the README.
"""

from __future__ import annotations

import io
import math
import re
import sys
from pathlib import Path

from instruments.dash.board import Board, Flow, Given, Meter, Task, Trend
from instruments.dash.paint import STYLES
from instruments.dash.view import height, lay_out

_GIB = 1024.0**3
_FONTS = "Fira Code, Menlo, Consolas, DejaVu Sans Mono,"
_SGR = {"1": "bold", "2": "dim", "": ""}
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
#: What the imagined script printed above the dashboard.
_PRINTED = (
    "$ voir --dash main.py --epochs 20",
    "Training on 60,000 images, testing on 10,000.",
    "epoch 10: accuracy 0.9714",
    "epoch 11: accuracy 0.9748",
    "epoch 12: accuracy 0.9761",
)


def sample() -> Board:
    """The board of a training run at 62 %, with everything known."""
    wave = [math.sin(i * 1.7) * math.sin(i * 0.31) for i in range(160)]
    loss = tuple(2.1 * math.exp(-i / 38) + 0.19 + 0.02 * w for i, w in enumerate(wave))
    rate = tuple(1190 + 60 * w - 700 * math.exp(-i / 2) for i, w in enumerate(wave))
    train = Task(
        "train", 1240, 2000, 51.0, 0.62, 1240,
        Trend(loss, loss[-1], 2.3026, min(loss)),
        Trend(rate, rate[-1]), "items/s", 0.32, 0.68,
    )  # fmt: skip
    return Board(
        title="main.py",
        elapsed=83.0,
        tasks=(train,),
        host=(Meter("cpu", 0.48, 12.1 * _GIB, 32 * _GIB),),
        gpus=(Meter("gpu 0", 0.91, 24.2 * _GIB, 40 * _GIB, ("231 W", "64 °C")),),
        flows=(
            Flow("disk", (("read", 48.2e6), ("write", 0.3e6))),
            Flow("network", (("in", 0.1e6), ("out", 0.0))),
        ),
        given=(
            Given("acc", "0.9761", 12),
            Given("lr", "0.001000", 1240),
            Given("batch", "f32[32, 1, 8, 8]", 1240),
            Given("model", "CNN", 1),
            Given("use_cuda", "True", 1),
        ),
    )


def svg(board: Board, columns: int, rows: int, printed: tuple[str, ...] = _PRINTED) -> str:
    """``board`` in a terminal of ``columns`` by ``rows``, below what the script printed."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), width=columns, record=True, force_terminal=True)
    for text in printed:
        console.print(Text(text))
    for line in lay_out(board, columns, height(rows)):
        console.print(Text.assemble(*((text, _rich(style)) for text, style in line)))
    drawn = console.export_svg(title=f"voir --dash {board.title}", unique_id="dash")
    # Rich would fetch its font from the network; a reader's own monospace font does as well.
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace(
        "Fira Code,", _FONTS
    )


def _rich(style: str) -> str:
    attribute, colour = STYLES[style]
    name = _COLOURS[int(colour) - 30] if colour else ""
    return f"{_SGR[attribute]} {name}".strip()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(sample(), 120, 40), encoding="utf-8")
