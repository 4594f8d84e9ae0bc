"""``voir show RUN``: shows a run's summary."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..clock import time_ns
from ..errors import UsageError
from ..rundir.pyspy import look_inside
from ..rundir.reading import Run, read_job
from ..views.brief import brief_of, brief_text
from ..views.job import ranks_text
from ..views.text import Layout, Piece, row
from .commands import CommandParser, Terminal, within
from .notices import screen
from .runs import RUN_HELP, facts_of, finished_run, run_directory

_ABOUT = """\
Show the summary of a run; if it is still running, the figures so far. A job of several ranks has
one summary; --rank R shows that of one rank.
"""


def parser() -> CommandParser:
    """The parser of ``voir show``."""
    made = CommandParser(prog="voir show", description=_ABOUT, example="voir show voir-runs/RUN")
    made.add_argument("run", metavar="RUN", nargs="*", help=RUN_HELP)
    made.add_argument("--all", action="store_true",
        help="show all progress bars, probes and values of your own")  # fmt: skip
    made.add_argument("--rank", metavar="R", type=within(0, 1 << 31, "number of a rank", int),
        help="show only this rank of a job")  # fmt: skip
    made.add_argument("--as-one-job", action="store_true",
        help="show several directories as one job, such as those of its machines")  # fmt: skip
    made.add_argument("--brief", action="store_true",
        help="show the verdict, evidence, and what to do next, in at most 400 tokens")  # fmt: skip
    made.add_argument("--json", action="store_true",
        help="print the content of run.json; with --brief, of what it shows")  # fmt: skip
    return made


def show(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Show the run that ``argv`` names; yield the output.

    Args:
        argv: The arguments of ``voir show``.
        terminal: The output's.

    Raises:
        VoirError: There is no such run, or it cannot be read.
    """
    options = parser().parse_args(argv)
    named = options.run[0] if options.run else None
    if options.as_one_job:
        yield _once(_one_job(options.run), options, terminal)
        return
    if len(options.run) > 1:
        remedy = "Name one run; with --as-one-job, the directories of one job."
        raise UsageError("usage", "voir show: it takes one run", remedy)
    yield _once(_read(run_directory(named)), options, terminal)


def _read(path: Path) -> Run:
    """The run, finished; processes whose interpreter's lock is held are looked at from outside."""
    look_inside([path, *path.glob("rank*")])
    return finished_run(path)


def _once(run: Run, options: Namespace, terminal: Terminal) -> str:
    run = _of_rank(run, options.rank)
    if options.brief:
        brief = brief_of(facts_of(run))
        if options.json:
            return json.dumps(brief.as_facts(), indent=1) + "\n"
        return brief_text(brief, *terminal[:2])
    if options.json:
        return json.dumps(facts_of(run), indent=2) + "\n"
    return _shown(run, terminal, options.all)


def _one_job(named: list[str]) -> Run:
    """The runs of these directories, finished, as one job."""
    paths = [run_directory(each) for each in named]
    if not paths:
        example = "For example: voir show A B --as-one-job"
        raise UsageError("usage", "voir show --as-one-job: it names no run", example)
    for path in paths:
        finished_run(path)
    return read_job(paths)


def _of_rank(run: Run, rank: int | None) -> Run:
    """The run of one rank; the run itself for None.

    Raises:
        UsageError: The job has no such rank.
    """
    if rank is None:
        return run
    found = next((one for one in run.ranks or (run,) if one.rank == rank), None)
    if found is None:
        from ..job.figures import kind_of

        runs = run.ranks or (run,)
        has = ranks_text([one.rank for one in runs], kind_of(runs))
        remedy = f"It has {has}." if run.ranks else f"It is {has} alone."
        if not run.ranks and run.facts.get("rank") is None and kind_of(runs) == "rank":
            remedy = "It is the run of one process: leave --rank out."
        raise UsageError("usage", f"{run.path} has no rank {rank}", remedy)
    return found


def _aged(run: Run) -> dict[str, Any]:
    """The facts of a run; with the age of the figures if it is running."""
    facts = facts_of(run)
    if "now" in facts:
        with suppress(OSError):
            files = [(one.path / "run.json").stat().st_mtime_ns for one in run.ranks or (run,)]
            facts["state"] += f"; figures of {max(0, time_ns() - max(files)) / 1e9:.1f} s ago"
    return facts


def _shown(run: Run, terminal: Terminal, whole: bool) -> str:
    """Return the summary, with what is missing."""
    width, colour, height = terminal
    facts, runs = _aged(run), run.ranks or (run,)
    cut = [one.path.name for one in runs if one.metrics.cut_off]
    where = f" of {', '.join(cut)}" if run.ranks else ""
    partial = Piece(f"metrics.jsonl{where} ends in the middle of a line" if cut else "", "warn")
    why = Piece("it is being written, or was cut off" if cut else "")
    note = Layout(width, colour).text([row("partial", partial, why)])
    shown = screen(facts, width, colour, height, whole)
    return "\n".join([shown, *([note] if note else [])])
