"""``voir show RUN``: the summary of a run again; with ``--watch`` whenever its files change."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import VoirError
from ..rundir.reading import Run, read_run
from ..views.text import Layout, Piece, row
from .commands import CommandParser, Terminal, within
from .notices import screen
from .runs import RUN_HELP, facts_of, finished_run, is_run, newest, run_directory

_ABOUT = """\
Show the summary of a run again; of one that goes on, what it comes to so far. Of a job, each rank
has a summary.
"""
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def parser() -> CommandParser:
    """What ``voir show`` takes."""
    made = CommandParser(prog="voir show", description=_ABOUT, example="voir show voir-runs/RUN")
    made.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    made.add_argument("--all", action="store_true",
        help="all there is, however long: bars, probes, values of your own")  # fmt: skip
    made.add_argument("--json", action="store_true", help="run.json's facts, for programs")
    made.add_argument("--watch", action="store_true",
        help="the latest that goes on, or the next: again whenever its files change")  # fmt: skip
    seconds = within(0.1, 3600, "number of seconds from 0.1 to 3600")
    made.add_argument("--every", type=seconds, default=2.0, metavar="S",
        help="with --watch: seconds between two looks (default: 2)")  # fmt: skip
    return made


def show(
    argv: list[str], terminal: Terminal, wait: Callable[[float], object] = time.sleep
) -> Iterator[str]:
    """Show the run that ``argv`` names; what to print.

    Args:
        argv: What follows ``voir show``.
        terminal: One that shows colours is cleared before each summary, too.
        wait: Lets so many seconds pass.

    Raises:
        VoirError: There is no such run, or it cannot be read.
    """
    options = parser().parse_args(argv)
    if options.json or not options.watch:
        run = finished_run(run_directory(options.run))
        yield _for_programs(run) if options.json else _shown(run, terminal, options.all)[0]
        return
    watched, shown = WatchedRun(options.run), ""
    with suppress(KeyboardInterrupt):
        while True:
            try:
                text, ended = _shown(finished_run(watched.path()), terminal, options.all)
            except VoirError as error:  # It has not begun, or somebody else's hand is in it.
                text, ended = f"voir: {error.what}; waiting\n", False
            if text != shown:
                yield f"{_CLEAR}{text}" if terminal.colour else text
            if ended:
                return
            shown = text
            wait(options.every)
    yield "\n"


class WatchedRun:
    """The run that is watched: the one that is named, else the latest that goes on or begins.

    Args:
        named: As the command line has it.

    Raises:
        VoirError: It is further back than there are runs.
    """

    def __init__(self, named: str | None) -> None:
        self._named = named
        self._many = named is None or (os.path.isdir(named) and not is_run(Path(named)))
        self._before = self._listed() if self._many else []
        if named is not None and not self._many:
            run_directory(named)

    def _listed(self) -> list[Path]:
        with suppress(VoirError):
            return newest(self._named)
        return []

    def path(self) -> Path:
        """Where the run is.

        Raises:
            VoirError: None has begun, and none goes on.
        """
        if self._named is not None and (not self._many or is_run(Path(self._named))):
            return run_directory(self._named)
        began = [path for path in self._listed() if path not in self._before]
        for path in (*began[:1], *self._before[:1]):
            if path in began or _goes_on(read_run(path)):
                self._before = [each for each in self._before if each != path]
                return path
        where = self._named or os.environ.get("VOIR_RUN_DIR") or "voir-runs"
        raise VoirError("run-missing", f"no run goes on in {where}", "Start one.")


def _goes_on(run: Run) -> bool:
    return any("state" in facts_of(one) for one in run.ranks or (run,))


def _aged(run: Run) -> dict[str, Any]:
    """The facts of a run; of one that goes on, with how old its figures are."""
    facts = facts_of(run)
    if "now" in facts:
        with suppress(OSError):
            age = time.time() - (run.path / "run.json").stat().st_mtime
            facts["state"] += f"; figures of {max(0.0, age):.1f} s ago"
    return facts


def _for_programs(run: Run) -> str:
    """The facts of a run; of a job, a list of its ranks'."""
    every = [facts_of(one) for one in run.ranks or (run,)]
    return json.dumps(every if run.ranks else every[0], indent=2) + "\n"


def _shown(run: Run, terminal: Terminal, whole: bool) -> tuple[str, bool]:
    """The summary of each process, what is missing, and whether none of them goes on."""
    width, colour, height = terminal
    runs = run.ranks or (run,)
    height = 0 if len(runs) > 1 else height
    each = [_aged(one) for one in runs]
    cut = [one.path.name for one in runs if one.metrics.cut_off]
    where = f" of {', '.join(cut)}" if run.ranks else ""
    partial = Piece(f"metrics.jsonl{where} ends within a line" if cut else "", "warn")
    why = Piece("it is being written, or was cut off" if cut else "")
    missing = [f"rank {rank}" for rank in run.missing_ranks]
    have = "has" if len(missing) == 1 else "have"
    said = Piece(f"{', '.join(missing)} {have} recorded nothing" if missing else "", "warn")
    note = Layout(width, colour).text([row("partial", partial, why), row("missing", said)])
    shown = [screen(facts, width, colour, height, whole) for facts in each]
    text = "\n".join([*shown, *([note] if note else [])])
    return text, not any("state" in facts for facts in each)
