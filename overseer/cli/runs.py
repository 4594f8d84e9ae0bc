"""``voir runs``: the runs in a directory, newest first; and which of them a command line names."""

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
from ..model.amounts import duration
from ..model.facts import main_task, part
from ..rundir.differences import unlike_arguments
from ..rundir.finishing import finish_run
from ..rundir.reading import Run, read_run
from ..views.summary import losses, outcome, rate, seconds
from ..views.text import cut, table
from .commands import CommandParser, Terminal

_ABOUT = "List runs, newest first. What stands before each names it: voir show -2."
_HEAD = ("run", "name", "started", "script", "steady", "overall", "loss", "took", "ended")
_SCRIPT, _LOSS = _HEAD.index("script"), _HEAD.index("loss")
#: The last column: what of the arguments is not the same in all runs of a script; and its least
#: width.
_UNLIKE, _LEAST = "arguments", 16
#: What a command says of its RUN.
RUN_HELP = (
    "a run directory, -2 for the one before the latest, a --name or --tag (default: the latest)"
)
#: What follows a rate over all the time of a run.
_OVERALL = " overall"
#: Where ``run.json`` says when the run began; what follows need not be read to sort runs.
_BEGIN, _STARTED = 4096, re.compile(rb'"started": ?"([^"]+)"')


def parser() -> CommandParser:
    """What ``voir runs`` takes."""
    made = CommandParser(prog="voir runs", description=_ABOUT, example="voir runs voir-runs")
    made.add_argument("directory", metavar="DIR", nargs="?",
        help="what holds them (default: $VOIR_RUN_DIR, or voir-runs)")  # fmt: skip
    made.add_argument("-n", type=int, default=20, metavar="N", help="how many (default: 20)")
    made.add_argument("--json", action="store_true", help="for programs")
    return made


def runs(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """List the runs that ``argv`` asks for; what to print.

    Raises:
        VoirError: There are none.
    """
    options = parser().parse_args(argv)
    listed = [*enumerate(newest(options.directory)[: max(options.n, 0)], 1)]
    if options.json:
        yield json.dumps([_for_programs(path) for _, path in listed], indent=2) + "\n"
    else:
        facts = [(-at, path, _read(path)) for at, path in listed]
        yield _table([_cells(*each) for each in facts], [one for *_, one in facts], terminal)


def _table(cells: list[list[str]], facts: list[dict[str, Any]], terminal: Terminal) -> str:
    """The rows below their head; a column that is empty is left out.

    On a terminal that is too narrow the script's name is left out if it is always the same, and
    arguments that have no room at the right stand below their run.
    """
    try:
        unlike = unlike_arguments(facts)
    except Exception:  # Somebody else's idea of a record.
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
    """A table of those columns that have anything."""
    if unlike:
        cells = [[*row, one] for row, one in zip(cells, unlike, strict=True)]
    kept = [at for at, column in enumerate(zip(*cells, strict=True)) if at == 0 or any(column)]
    kept = kept or [*range(len(_HEAD))]
    rows = [[row[at] for at in kept] for row in [[*_HEAD, _UNLIKE], *cells]]
    return table(rows, [True, *[False] * (len(kept) - 1)])


def newest(directory: str | Path | None = None) -> list[Path]:
    """The directories of the runs in a directory, the newest first.

    Raises:
        VoirError: There are none.
    """
    base = Path(directory or os.environ.get("VOIR_RUN_DIR") or "voir-runs")
    if is_run(base):
        return [base]
    found = sorted(((_begun(path), path) for path in base.glob("*")), reverse=True)
    if not any(begun for begun, _ in found):
        remedy = "Record one: voir SCRIPT. Or name the directory of a run."
        raise UsageError("usage", f"{base}/ holds no run", remedy)
    return [path for begun, path in found if begun]


def run_directory(named: str | None) -> Path:
    """The directory of the run that a command line names: by its path, as -1 or -2, or not at all.

    Args:
        named: A run's directory or one of its files, a directory of runs, of which the newest is
            meant, -1 for the newest run, -2 for the one before it, or the newest one's --name or
            --tag; None: the newest.

    Raises:
        VoirError: There are not so many runs.
    """
    if named is not None and not re.fullmatch(r"-\d+", named):
        path = Path(named)
        with suppress(VoirError):
            return newest(path)[0] if path.is_dir() else labelled(named)[0]
        return path
    found, back = newest(), max(int((named or "-1")[1:]), 1)
    if back > len(found):
        there = "the only run there is" if len(found) == 1 else f"the {len(found)} runs there are"
        what = f"{named or -1} is further back than {there}"
        raise UsageError("usage", what, "voir runs lists them.")
    return found[back - 1]


def finished_run(path: Path, progress: Callable[[float], object] = lambda share: None) -> Run:
    """The run in a directory; the record of a killed one is finished first, which stderr is told.

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
    """The newest run of that name, else all runs with that tag, the newest first.

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
    """What says how a run is called: as it is in its file, which is not finished for that."""
    for name in ("run.json", "rank0/run.json"):
        with suppress(OSError, ValueError):
            facts = read_json(path / name)
            return facts if isinstance(facts, dict) else {}
    return {}


def is_run(path: Path) -> bool:
    """Whether a directory is that of a run, or of a job."""
    names = ("run.json", "metrics.jsonl", "job.json")
    return any(os.path.exists(path / name) for name in names) or any(path.glob("rank*/run.json"))


def _begun(directory: Path) -> str:
    """When the run in a directory began, by its record, else by its files; empty: it is none."""
    for name in ("run.json", "rank0/run.json", "job.json", "metrics.jsonl"):
        with suppress(OSError), reading(directory / name) as file:
            if found := _STARTED.search(file.read(_BEGIN)):
                return found[1].decode("ascii", "replace")
            changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
            return f"{changed:%Y-%m-%dT%H:%M:%S}"
    return ""


def facts_of(run: Run) -> dict[str, Any]:
    """What ``run.json`` says, where it is, and its ``state`` if it has no end."""
    facts, doing = {**run.facts, "directory": str(run.path)}, run.facts.get("now")
    if doing:
        facts["state"] = f"goes on: {doing}"
    elif facts.get("provenance") and "ended" not in facts:  # Only its own machine knows.
        facts["state"] = "goes on, or did not finish"
    return facts


def _read(path: Path) -> dict[str, Any]:
    """The facts of a run; of one that cannot be read, why that is."""
    try:
        return facts_of(finished_run(path))
    except VoirError as error:
        return {"state": error.what}
    except Exception as error:  # Somebody else's idea of a record.
        return {"state": f"{path} cannot be read: {said(error)}"}


def _for_programs(path: Path) -> dict[str, Any]:
    """What programs learn of a run."""
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
        cut(steady, 24),
        cut(next(iter(said), "").removesuffix(_OVERALL), 24),
        losses(main) or "",
        duration(seconds(facts)) or "",
        cut(outcome(facts).text, 60),
    ]


def _labels(facts: dict[str, Any]) -> str:
    """The name of a run, and its tags."""
    name, tags = facts.get("name"), facts.get("tags")
    marks = [f"[{tag}]" for tag in tags] if isinstance(tags, list) else []
    return " ".join([str(name), *marks] if name else marks)


def _local(started: object) -> str:
    """A moment in local time; of another year, without the time of day."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(str(started)).astimezone()
        this_year = moment.year == datetime.now().astimezone().year
        return f"{moment:%m-%d %H:%M}" if this_year else f"{moment:%Y-%m-%d}"
    return ""
