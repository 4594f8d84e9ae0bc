"""``voir compare A B ...``: compares runs, groups of runs, and benches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..model.catalogue import RATE
from ..model.comparison import THRESHOLD, ComparedFigure, Comparison
from ..model.comparison import compare as compare_sides
from ..rundir.differences import Difference, differences
from ..views.comparison import ShownSide, render
from .commands import CommandParser, Terminal, within
from .sides import NamedSide, sides_of

_ABOUT = """\
Compare runs with the first one: rates, shares, times, losses, memory, and how the runs differ. A
difference is reported only if its 95 % interval over repeated runs lies beyond the threshold. A
side is a run, or repeated runs, separated by commas or in one directory.
"""


def parser() -> CommandParser:
    """The parser of ``voir compare``."""
    example = "voir compare voir-runs/A voir-runs/B"
    made = CommandParser(prog="voir compare", description=_ABOUT, example=example)
    many = "a run, several runs (A1,A2,A3), a directory of runs, or a tag"
    made.add_argument("sides", metavar="SIDE", nargs="*",
        help=f"{many} (default: -2 -1, the latest two)")  # fmt: skip
    made.add_argument("--baseline", metavar="SIDE",
        help="compare with this one instead of the first")  # fmt: skip
    percent = within(0, 999, "percentage, such as 3", lambda it: float(it.rstrip("%")))
    made.add_argument("--threshold", type=percent, metavar="PERCENT", default=100 * THRESHOLD,
        help="smallest difference to report (default: 1)")  # fmt: skip
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def compare(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Compare the sides that ``argv`` names; yield the output.

    Args:
        argv: The arguments of ``voir compare``.
        terminal: The output's terminal.

    Raises:
        VoirError: One of them is not a run, or cannot be read.
    """
    options = parser().parse_args(argv)
    named, reference = sides_of(options.sides, options.baseline)
    sides = [one.side for one in named]
    found = compare_sides(sides, options.threshold / 100, reference)
    unlike = differences([side.runs for side in sides if not side.control])
    if options.json:
        yield json.dumps(_as_json(named, found, unlike), indent=2) + "\n"
        return
    shown = [ShownSide(one.named, one.side.runs) for one in named]
    yield render(found, shown, unlike, terminal.width)


def _as_json(named: list[NamedSide], found: Comparison, unlike: list[Difference]) -> dict[str, Any]:
    return {
        "schema": 1,
        "reference": found.sides[found.reference],
        "threshold": found.threshold,
        "sides": [
            {"name": name, "named": each.named, "runs": [*each.paths]}
            for name, each in zip(found.sides, named, strict=True)
        ],
        "figures": [_figure(one, found.sides) for one in found.rows],
        "verdicts": [verdict._asdict() for verdict in found.verdicts],
        "steps": [{**one._asdict(), "parts": dict(one.parts)} for one in found.steps],
        "losses": [one._asdict() for one in found.losses],
        "notes": found.notes,
        "differences": [
            {**one._asdict(), "values": dict(zip(found.plain, one.values, strict=True))}
            for one in unlike
        ],
    }


def _figure(one: ComparedFigure, sides: list[str]) -> dict[str, Any]:
    metric = one.figure.metric
    return {
        "task": one.task or None,
        "figure": one.figure.path,
        "units": f"{one.units}/s" if metric.kind == RATE else metric.unit,
        "better": metric.better or None,
        "values": dict(zip(sides, one.values, strict=True)),
        "against": {
            side: against._asdict()
            for side, against in zip(sides, one.against, strict=True)
            if against is not None
        },
    }
