"""The end of a run under ``--verify``: a line a check, and what to write where one fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measured import entries
from .rows import Layout, Piece, Row, clean, row
from .summary import head_of, record

_STYLES = {"PASS": "good", "FAIL": "bad", "SKIP": "dim"}
_COLUMN = 22


def render(run: Mapping[str, Any], width: int, colour: bool, *, ascii_only: bool = False) -> str:
    """The checks of a run, each ended by a newline.

    Args:
        run: What ``run.json`` holds.
        width: Of the terminal, in cells.
        colour: Whether to use colours.
        ascii_only: Draw with ASCII alone.
    """
    layout = Layout(width, colour, ascii_only, column=_COLUMN)
    checks = entries(run, "verify")
    results = [str(check.get("verdict")) for check in checks]
    counts = [
        Piece(f"{results.count(kind)} {kind}", style)
        for kind, style in _STYLES.items()
        if kind in results
    ]
    lines = [layout.head("voir:", [*head_of(run), *counts])]
    shown: set[str] = set()
    for check in checks:
        lines.append(layout.text([_check(check)]))
        hint = clean(check.get("hint") or "") if check.get("verdict") == "FAIL" else ""
        if hint and hint not in shown:
            lines.append(_hint(hint, colour))
        shown.add(hint)
    narrow = Layout(width, colour, ascii_only)
    return "".join([*lines, narrow.text(record(run))])


def _check(check: Mapping[str, Any]) -> Row:
    verdict = clean(check.get("verdict") or "")
    name = clean(check.get("check") or "")
    return row(
        f"{verdict}  {name}",
        clean(check.get("evidence") or "") or " ",
        style=_STYLES.get(verdict, ""),
    )


def _hint(hint: str, colour: bool) -> str:
    """What to write, on a line of its own and in one piece, so that it can be copied."""
    label = "write:" if hint.startswith("ov.") else "try:"
    text = f"        {label} {hint}"
    return (f"\x1b[1m{text}\x1b[0m" if colour else text) + "\n"
