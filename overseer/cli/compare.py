"""``voir compare A B``: compares two runs, or two groups of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import UsageError, VoirError
from ..model.catalogue import RATE
from ..model.comparison import ComparedFigure, Comparison
from ..model.comparison import compare as compare_facts
from ..model.facts import part
from ..rundir.courses import with_courses
from ..rundir.differences import Difference, differences
from ..rundir.reading import Run
from ..views.comparison import render
from .commands import CommandParser, Terminal, within
from .runs import facts_of, finished_run, labelled, run_directory, warn

_ABOUT = """\
Compare run B with run A: rates, shares, times, losses, memory, and how the runs differ. A
difference is reported only if it exceeds the threshold and its 95 % interval excludes zero. Compare
repeated runs, separated by commas, to learn what the next run would show.
"""


def parser() -> CommandParser:
    """The parser of ``voir compare``."""
    example = "voir compare voir-runs/A voir-runs/B"
    made = CommandParser(prog="voir compare", description=_ABOUT, example=example)
    many = "a run, several runs (A1,A2,A3), a directory of runs, or a tag"
    made.add_argument("before", metavar="A", nargs="?", default="-2", help=f"{many} (default: -2)")
    made.add_argument(
        "after", metavar="B", nargs="?", default="-1", help="as A (default: -1, the latest)"
    )
    percent = within(0, 999, "percentage, such as 3", lambda it: float(it.rstrip("%")))
    made.add_argument("--threshold", type=percent, metavar="PERCENT",
        help="smallest difference to report (default: 1; 5 for single runs)")  # fmt: skip
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def compare(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Compare the runs that ``argv`` names; yield the output.

    Args:
        argv: The arguments of ``voir compare``.
        terminal: The output's terminal.

    Raises:
        VoirError: One of them is not a run, or cannot be read.
    """
    options = parser().parse_args(argv)
    sides = [_runs(options.before), _runs(options.after)]
    single = len(sides[0]) == len(sides[1]) == 1  # Its interval is over single steps.
    facts = [[_facts(run, single) for run in side] for side in sides]
    threshold = None if options.threshold is None else options.threshold / 100
    found = compare_facts(facts[0], facts[1], threshold)
    unlike = differences(facts[0], facts[1])
    if options.json:
        yield json.dumps(_as_json(sides, found, unlike), indent=2) + "\n"
        return
    named = [[(str(run.path), facts_of(run)) for run in side] for side in sides]
    yield render(found, named, unlike, terminal.width)


def _facts(run: Run, single: bool) -> dict[str, Any]:
    """The facts of a run to compare; of a job, those of all its ranks.

    Args:
        run: The run.
        single: Add the course of its step times; of a job, that of its first rank.
    """
    if not run.ranks:
        return with_courses(run, warn) if single else run.facts
    from ..job.figures import job_facts

    facts = job_facts(run, warn)
    first = with_courses(run.ranks[0], warn) if single else {}
    for name, task in part(facts, "tasks").items():
        course = part(first, "tasks", name, "step_seconds").get("course")
        task["step_seconds"] = {**part(task, "step_seconds"), "course": course}
    return facts


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


def _as_json(sides: list[list[Run]], found: Comparison, unlike: list[Difference]) -> dict[str, Any]:
    return {
        "before": [str(run.path) for run in sides[0]],
        "after": [str(run.path) for run in sides[1]],
        "threshold": found.threshold,
        "figures": [_figure(one) for one in found.rows],
        "verdicts": [verdict._asdict() for verdict in found.verdicts],
        "notes": found.notes,
        "differences": [one._asdict() for one in unlike],
    }


def _figure(one: ComparedFigure) -> dict[str, Any]:
    metric = one.figure.metric
    units = f"{one.units}/s" if metric.kind == RATE else metric.unit
    named = {"task": one.task or None, "figure": one.figure.path, "units": units}
    named["better"] = metric.better or None
    return named | {key: getattr(one, key) for key in ("before", "after", "ratio", "interval")}
