"""The end of a run under ``--verify``: a line per check, and the remedy for failed ones."""

from __future__ import annotations

from ..errors import clean
from ..model.facts import entries
from .job import kind_of_job
from .summary import head_of, record
from .text import Layout, Piece, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model.facts import Facts

_STYLES = {"PASS": "good", "FAIL": "bad", "WARN": "warn", "SKIP": "dim"}
_COLUMN = 22


def render(run: Facts, width: int, colour: bool = False) -> str:
    """Render the checks of a run; each line ends with a newline.

    Args:
        run: The facts of ``run.json``.
        width: The terminal's, in cells.
        colour: Whether to use colours.
    """
    layout, checks = Layout(width, colour, _COLUMN), entries(run, "verify")
    results = [str(check.get("verdict")) for check in checks]
    kinds = [kind for kind in _STYLES if kind in results]
    counts = [Piece(f"{results.count(kind)} {kind}", _STYLES[kind]) for kind in kinds]
    ranks = [number for check in checks if isinstance(number := check.get("rank"), int)]
    first = f"{kind_of_job(run)} {min(ranks)}" if ranks and "job" in run else ""
    of = [Piece(f"checks of {first}")] if first else []
    lines, shown = [layout.head("voir:", [*head_of(run), *of, *counts])], set()
    for check in checks:
        verdict, hint = clean(check.get("verdict") or ""), clean(check.get("hint") or "")
        label = f"{verdict}  {clean(check.get('check') or '')}"
        said = clean(check.get("evidence") or "") or " "
        by = f"{kind_of_job(run)} {clean(check['rank'])}" if "rank" in check else "main process"
        said = f"{by}: {said}" if first not in ("", by) else said
        lines.append(layout.text([row(label, said, style=_STYLES.get(verdict, ""))]))
        if hint and hint not in shown and verdict != "PASS":
            # On one line, so that it can be copied.
            text = f"        {'write' if hint.startswith('ov.') else 'try'}: {hint}"
            lines.append((f"\x1b[1m{text}\x1b[0m" if colour else text) + "\n")
        shown.add(hint)
    return "".join([*lines, Layout(width, colour).text(record(run))])
