"""``voir compare A B ...``: compares runs, groups of runs, and benches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError, VoirError
from ..model.catalogue import RATE
from ..model.comparability import ComparedSide
from ..model.comparison import THRESHOLD, ComparedFigure, Comparison
from ..model.comparison import compare as compare_sides
from ..rundir.differences import Difference, differences
from ..rundir.reading import Run
from ..views.comparison import ShownSide, render
from .commands import CommandParser, Terminal, within
from .runs import facts_of, finished_run, labelled, run_directory

_ABOUT = """\
Compare runs with the first one: rates, shares, times, losses, memory, and how the runs differ. A
difference is reported only if its 95 % interval over repeated runs lies beyond the threshold. A
side is a run, or repeated runs, separated by commas or in one directory.
"""


class _Named(NamedTuple):
    """A side as the command line names it.

    Attributes:
        named: Its name there.
        runs: Its runs.
    """

    named: str
    runs: list[Run]


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
    named, reference = _sides(options.sides, options.baseline)
    sides = [
        ComparedSide(_letter(at), [facts_of(run) for run in each.runs])
        for at, each in enumerate(named)
    ]
    found = compare_sides(sides, options.threshold / 100, reference)
    unlike = differences([side.runs for side in sides])
    if options.json:
        yield json.dumps(_as_json(named, found, unlike), indent=2) + "\n"
        return
    shown = [ShownSide(each.named, side.runs) for each, side in zip(named, sides, strict=True)]
    yield render(found, shown, unlike, terminal.width)


def _sides(names: list[str], baseline: str | None) -> tuple[list[_Named], int]:
    """The sides, and the place of the one that the others are compared with."""
    if len(names) < 2 and baseline is None:
        names = [*(names or ["-2"]), "-1"]
    if baseline is not None and baseline not in names:
        names = [baseline, *(names or ["-1"])]
    if len(names) < 2:
        raise UsageError("usage", f"{names[0]} alone has nothing to compare with", "Name two runs.")
    reference = names.index(baseline) if baseline is not None else 0
    return [_Named(name, _runs(name)) for name in names], reference


def _letter(at: int) -> str:
    return chr(ord("A") + at) if at < 26 else f"S{at + 1}"


def _runs(paths: str) -> list[Run]:
    named = [path for path in paths.split(",") if path]
    if not named:
        raise UsageError("usage", "voir compare: a side names no run", "Name run directories.")
    return [finished_run(run) for path in named for run in _repeats(path)]


def _repeats(named: str) -> list[Path]:
    """The runs in a directory of runs, or else the named run."""
    inside = sorted(file.parent for file in Path(named).glob("*/run.json"))
    ranks = any(directory.name.startswith("rank") for directory in inside)
    held = inside and not ranks and not (Path(named) / "run.json").exists()
    if not held and not Path(named).exists():
        with suppress(VoirError):  # A tag names all of its runs; -2 is not one.
            return labelled(named)
    return inside if held else [run_directory(named)]


def _as_json(named: list[_Named], found: Comparison, unlike: list[Difference]) -> dict[str, Any]:
    return {
        "schema": 1,
        "reference": found.sides[found.reference],
        "threshold": found.threshold,
        "sides": [
            {"name": name, "named": each.named, "runs": [str(run.path) for run in each.runs]}
            for name, each in zip(found.sides, named, strict=True)
        ],
        "figures": [_figure(one, found.sides) for one in found.rows],
        "verdicts": [verdict._asdict() for verdict in found.verdicts],
        "notes": found.notes,
        "differences": [
            {**one._asdict(), "values": dict(zip(found.sides, one.values, strict=True))}
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
