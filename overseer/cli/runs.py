"""``voir runs``: lists the runs in a directory; and finds the run that a command line names."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..boundary import said
from ..errors import UsageError, VoirError, clean
from ..files import read_json, reading
from ..model.facts import duration, main_task, part
from ..rundir.differences import unlike_arguments
from ..rundir.finishing import finish_run
from ..rundir.killed import RUNNING, SUSPENDED
from ..rundir.reading import Run, read_run
from ..views.summary import losses, outcome, rate, seconds
from ..views.text import cut, table
from .commands import CommandParser, Terminal

_ABOUT = "List runs, newest first. The number before each one names it: voir show -2."
_HEAD = ("run", "name", "started", "script", "ranks", "steady", "overall", "loss", "took", "ended")
_SCRIPT, _LOSS = _HEAD.index("script"), _HEAD.index("loss")
#: The last column: the arguments that differ between runs of a script; and its minimum width.
_UNLIKE, _LEAST = "arguments", 16
#: Help text for RUN.
RUN_HELP = (
    "a run directory, -2 for the one before the latest, a --name or --tag (default: the latest)"
)
#: Suffix of a rate over the whole run.
_OVERALL = " overall"
#: ``run.json`` has the start time near its beginning; sorting runs needs no more of it.
_BEGIN, _STARTED = 4096, re.compile(rb'"started": ?"([^"]+)"')


def parser() -> CommandParser:
    """The parser of ``voir runs``."""
    made = CommandParser(prog="voir runs", description=_ABOUT, example="voir runs voir-runs")
    made.add_argument("directory", metavar="DIR", nargs="?",
        help="the directory of runs (default: $VOIR_RUN_DIR, or voir-runs)")  # fmt: skip
    made.add_argument("-n", type=int, default=20, metavar="N", help="runs to list (default: 20)")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def runs(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """List the runs that ``argv`` names; yield the output.

    Raises:
        VoirError: There are no runs.
    """
    options = parser().parse_args(argv)
    listed = [*enumerate(newest(options.directory)[: max(options.n, 0)], 1)]
    if options.json:
        yield json.dumps([_for_programs(path) for _, path in listed], indent=2) + "\n"
    else:
        facts = [(-at, path, _read(path)) for at, path in listed]
        yield _table([_cells(*each) for each in facts], [one for *_, one in facts], terminal)


def _table(cells: list[list[str]], facts: list[dict[str, Any]], terminal: Terminal) -> str:
    """The table of runs, without empty columns.

    On a terminal that is too narrow, the script's name is omitted if all are equal, and arguments
    that do not fit at the right are shown below their run.
    """
    try:
        unlike = unlike_arguments(facts)
    except Exception:  # Another program's record.
        unlike = [""] * len(facts)
    text = _columns([*cells], [])
    room = terminal.width - max(map(len, text.splitlines())) - 2 if terminal.height else 1 << 30
    if room < 0:
        same = len({row[_SCRIPT] for row in cells}) == 1
        lean = [
            [*row[:_SCRIPT], "" if same else row[_SCRIPT], *row[_SCRIPT + 1 :]] for row in cells
        ]
        for row in lean:
            row[_LOSS] = row[_LOSS].rpartition(" ")[2]
        cells, text = lean, _columns(lean, [])
    if not any(unlike):
        return text
    if room >= _LEAST:
        return _columns(cells, [cut(one, room) for one in unlike])
    head, *lines = text.splitlines()
    below = [f"     {cut(one, terminal.width - 5)}" if one else "" for one in unlike]
    pairs = [each for pair in zip(lines, below, strict=True) for each in pair if each]
    return "\n".join([head, *pairs, ""])


def _columns(cells: list[list[str]], unlike: list[str]) -> str:
    """A table of the columns that are not empty."""
    if unlike:
        cells = [[*row, one] for row, one in zip(cells, unlike, strict=True)]
    kept = [at for at, column in enumerate(zip(*cells, strict=True)) if at == 0 or any(column)]
    kept = kept or [*range(len(_HEAD))]
    rows = [[row[at] for at in kept] for row in [[*_HEAD, _UNLIKE], *cells]]
    return table(rows, [True, *[False] * (len(kept) - 1)])


def newest(directory: str | Path | None = None) -> list[Path]:
    """Return the run directories in a directory, newest first.

    Raises:
        VoirError: There are no runs.
    """
    base = Path(directory or os.environ.get("VOIR_RUN_DIR") or "voir-runs")
    if is_run(base):
        return [base]
    found = sorted(((_begun(path), path) for path in base.glob("*")), reverse=True)
    if not any(begun for begun, _ in found):
        remedy = "Record one: voir SCRIPT. Or name a run's directory."
        raise UsageError("usage", f"{base}/ contains no run", remedy)
    return [path for begun, path in found if begun]


def run_directory(named: str | None) -> Path:
    """Return the directory of the run that a command line names.

    Args:
        named: A run's directory or one of its files; a directory of runs, for its newest; -1 for
            the newest run, -2 for the one before it; a run's --name or --tag; None for the newest.

    Raises:
        VoirError: There is no such run.
    """
    if named is not None and not re.fullmatch(r"-\d+", named):
        path = Path(named)
        if (path / "bench.json").exists():
            raise UsageError("usage", f"{path} is a bench", f"Show it: voir compare {path}")
        with suppress(VoirError):
            return newest(path)[0] if path.is_dir() else labelled(named)[0]
        return path
    found, back = newest(), max(int((named or "-1")[1:]), 1)
    if back > len(found):
        there = "the only run" if len(found) == 1 else f"the {len(found)} existing runs"
        what = f"{named or -1} is further back than {there}"
        raise UsageError("usage", what, "voir runs lists them.")
    return found[back - 1]


def finished_run(path: Path, progress: Callable[[float], object] = lambda share: None) -> Run:
    """Read a run; complete the record of a killed one first, with a note on stderr.

    Raises:
        VoirError: As :func:`read_run`.
    """
    run = read_run(path)
    if done := finish_run(run, progress):
        sys.stderr.write(f"voir: {clean(done)}\n")
    return run


def warn(error: VoirError) -> None:
    """Report on stderr that a file of a run is damaged; the command goes on without it."""
    sys.stderr.write(f"voir: {clean(error.what)}; the command goes on without it [{error.slug}]\n")


def labelled(named: str) -> list[Path]:
    """Return the newest run of that name, or else all runs with that tag, newest first.

    Raises:
        VoirError: There is no such run.
    """
    tagged = list[Path]()
    for path in [] if os.path.exists(named) or os.sep in named else newest():
        facts = _labelled(path)
        if facts.get("name") == named:
            return [path]
        tags = facts.get("tags")
        if isinstance(tags, list) and named in tags:
            tagged.append(path)
    if not tagged:
        raise VoirError("run-missing", f"{named}: no run has this name or tag", "See voir runs.")
    return tagged


def _labelled(path: Path) -> dict[str, Any]:
    """Read the name and tags of a run from its file; does not complete the record."""
    for name in ("run.json", "rank0/run.json"):
        with suppress(OSError, ValueError):
            facts = read_json(path / name)
            return facts if isinstance(facts, dict) else {}
    return {}


def is_run(path: Path) -> bool:
    """Test whether the directory belongs to a run or a job."""
    names = ("run.json", "metrics.jsonl", "job.json")
    return any(os.path.exists(path / name) for name in names) or any(path.glob("rank*/run.json"))


def _begun(directory: Path) -> str:
    """Start time of a run, from its record or its files; empty if the directory is not a run."""
    for name in ("run.json", "rank0/run.json", "job.json", "metrics.jsonl"):
        with suppress(OSError), reading(directory / name) as file:
            if found := _STARTED.search(file.read(_BEGIN)):
                return found[1].decode("ascii", "replace")
            changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
            return f"{changed:%Y-%m-%dT%H:%M:%S}"
    return ""


def facts_of(run: Run, report: Callable[[VoirError], object] = warn) -> dict[str, Any]:
    """The content of ``run.json``, with the directory, and the ``state`` of an unfinished run.

    For a job, the figures of all its ranks together.

    Args:
        run: The run.
        report: Receives the errors of files of a job that are damaged.
    """
    facts = _of_job(run, report) if run.ranks else run.facts
    facts, doing = {**facts, "directory": str(run.path)}, facts.get("now")
    if doing:
        told = str(doing).startswith((RUNNING, SUSPENDED))
        facts["state"] = doing if told else f"running: {doing}"
    elif facts.get("provenance") and "ended" not in facts:  # Only its own machine knows more.
        facts["state"] = "running, or did not finish"
    return facts


def _of_job(run: Run, report: Callable[[VoirError], object]) -> dict[str, Any]:
    from ..job.figures import job_facts

    facts = job_facts(run, report)
    if part(facts, "job").get("running"):
        facts["now"] = "running"
    return facts


def _read(path: Path) -> dict[str, Any]:
    """The facts of a run; the reason if it cannot be read."""
    try:
        return facts_of(finished_run(path))
    except VoirError as error:
        return {"state": error.what}
    except Exception as error:  # Another program's record.
        return {"state": f"{path} cannot be read: {said(error)}"}


def _for_programs(path: Path) -> dict[str, Any]:
    """The facts of a run for ``--json``."""
    facts = _read(path)
    tasks = {
        name: {key: task[key] for key in ("steps", "units", "rate", "loss") if key in task}
        for name, task in part(facts, "tasks").items()
        if isinstance(task, dict)
    }
    keys = "name", "tags", "argv", "script", "started", "exit_status"
    known = {key: facts[key] for key in keys if key in facts}
    ended = {"seconds": seconds(facts), "ended": outcome(facts).text, "tasks": tasks}
    return {"run": str(path)} | known | ended


def _cells(at: int, path: Path, facts: dict[str, Any]) -> list[str]:
    try:
        return _shown(at, path, facts)
    except Exception as error:
        return _shown(at, path, {"state": f"{path}/run.json cannot be shown: {said(error)}"})


def _shown(at: int, path: Path, facts: dict[str, Any]) -> list[str]:
    main = main_task(facts) or {}
    said = rate(main)
    steady = said.pop(0) if said and not said[0].endswith(_OVERALL) else ""
    return [
        str(at),
        cut(_labels(facts), 24),
        _local(facts.get("started")),
        cut(os.path.basename(str(facts.get("script") or path.name)), 24),
        str(part(facts, "job").get("ranks") or ""),
        cut(steady, 24),
        cut(next(iter(said), "").removesuffix(_OVERALL), 24),
        losses(main) or "",
        duration(seconds(facts)) or "",
        cut(outcome(facts).text, 60),
    ]


def _labels(facts: dict[str, Any]) -> str:
    """The name of a run and its tags."""
    name, tags = facts.get("name"), facts.get("tags")
    marks = [f"[{tag}]" for tag in tags] if isinstance(tags, list) else []
    return " ".join([str(name), *marks] if name else marks)


def _local(started: object) -> str:
    """A time in local time; without the time of day if it is in another year."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(str(started)).astimezone()
        this_year = moment.year == datetime.now().astimezone().year
        return f"{moment:%m-%d %H:%M}" if this_year else f"{moment:%Y-%m-%d}"
    return ""
