"""``voir compare A B ...``: compares runs, groups of runs, and benches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model.catalogue import RATE
from ..model.comparison import THRESHOLD, ComparedFigure, Comparison
from ..model.comparison import compare as compare_sides
from ..model.trimmed import Trimmed, trimmed
from ..rundir.differences import GROUPS, Difference, differences
from ..rundir.git import diff_size
from ..rundir.observations import observed_rates
from ..rundir.reading import read_run
from ..views.comparison import ShownSide, render
from ..views.comparison_markdown import markdown
from .commands import CommandParser, Terminal, within
from .runs import warn
from .sides import NamedSide, between_commits, commits_differ, sides_of

Facts = Mapping[str, Any]
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
    made.add_argument("--threshold", type=percent, metavar="PERCENT",
        help="smallest difference to report (default: that of the bench, or 1)")  # fmt: skip
    made.add_argument("--trim", action="store_true",
        help="also pool rates as Milabench does: without one minimum and one maximum")  # fmt: skip
    made.add_argument("--markdown", action="store_true", help="print Markdown, for a pull request")
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
    threshold = _threshold(options.threshold, named)
    found = compare_sides(sides, threshold, reference)
    plain = [side.runs for side in sides if not side.control]
    sizes = between_commits(plain, found, diff_size)
    unlike = [*differences(plain), *commits_differ(sizes)]
    unlike.sort(key=lambda one: GROUPS.index(one.group))
    pooled = _pooled(named, found) if options.trim else None
    shown = [ShownSide(one.named, one.side.runs) for one in named]
    if options.json:
        yield json.dumps(_as_json(named, found, unlike, pooled), indent=2) + "\n"
    elif options.markdown:
        yield markdown(found, shown, unlike, pooled)
    else:
        yield render(found, shown, unlike, terminal.width, pooled)


def _threshold(percent: float | None, named: Sequence[NamedSide]) -> float:
    """The given threshold, or that of the first bench, as a share."""
    if percent is not None:
        return percent / 100
    return next((one.threshold for one in named if one.threshold is not None), THRESHOLD)


def _pooled(named: Sequence[NamedSide], found: Comparison) -> dict[str, list[Trimmed | None]]:
    """The trimmed rates of each task and side."""
    sides: list[dict[str, list[float]]] = []
    for one in named:
        sides.append({})
        for path in one.paths:
            for task, rates in observed_rates(read_run(path), warn).items():
                sides[-1].setdefault(task, []).extend(rates)
    tasks = dict.fromkeys(row.task for row in found.rows if row.task)
    made = {task: [trimmed(side.get(task, [])) for side in sides] for task in tasks}
    return {task: each for task, each in made.items() if any(each)}


def _as_json(
    named: list[NamedSide],
    found: Comparison,
    unlike: list[Difference],
    pooled: Mapping[str, Sequence[Trimmed | None]] | None,
) -> dict[str, Any]:
    """The comparison as docs/compare.schema.json describes it."""
    trims = {
        task: {name: one._asdict() for name, one in zip(found.sides, sides, strict=True) if one}
        for task, sides in (pooled or {}).items()
    }
    return {
        "schema": 1,
        "reference": found.sides[found.reference],
        "threshold": found.threshold,
        "sides": [
            {
                "name": each.side.name,
                "named": each.named,
                "control": each.side.control,
                "runs": [*each.paths],
            }
            for each in named
        ],
        "figures": [_figure(one, found.sides) for one in found.rows],
        "verdicts": [verdict._asdict() for verdict in found.verdicts],
        "steps": [{**one._asdict(), "parts": dict(one.parts)} for one in found.steps],
        "losses": [one._asdict() for one in found.losses],
        **({"trimmed": trims} if pooled is not None else {}),
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
