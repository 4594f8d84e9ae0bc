"""``voir show RUN``: the summary of a run again; with ``--watch`` whenever its files change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import UsageError, VoirError
from ..record.ongoing import ends_torn, facts_so_far, goes_on, state_of_files
from ..record.reading import Run, read_run
from .parsing import CommandParser
from .rows import Layout, Piece, row
from .summary import screen

_ABOUT = """\
Show the summary of a run again; of one that goes on, what its events come to so far. Of a job,
each rank has a summary.
"""
#: Seconds between two looks at the files.
EVERY = 2.0
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def parser() -> CommandParser:
    """What ``voir show`` takes."""
    made = CommandParser(prog="voir show", description=_ABOUT, example="voir show voir-runs/RUN")
    made.add_argument("run", metavar="RUN", nargs="?",
        help="a run directory (default: the latest in voir-runs)")  # fmt: skip
    made.add_argument("--watch", action="store_true",
        help="again whenever its files change, until it ends or Ctrl-C")  # fmt: skip
    made.add_argument("--every", type=_seconds, default=EVERY, metavar="S",
        help="with --watch: seconds between two looks (default: 2)")  # fmt: skip
    return made


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 3600:
        what = f"voir show: --every is {text!r}, which is no number of seconds from 0.1 to 3600"
        raise UsageError("usage", what, "For example: --every 5")
    return value


def show(
    argv: list[str],
    width: int,
    colour: bool = False,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[str]:
    """Show the run that ``argv`` names; what to print.

    Args:
        argv: What follows ``voir show``.
        width: Of the terminal.
        colour: Whether to use colours; a terminal is cleared before each summary, too.
        wait: Lets so many seconds pass.

    Raises:
        VoirError: There is no such run, or it cannot be read.
    """
    options = parser().parse_args(argv)
    path = Path(options.run or _latest())
    if not options.watch:
        yield _shown(read_run(path), width, colour)
        return
    try:
        for text in _watched(path, width, colour, lambda: wait(options.every)):
            yield f"{_CLEAR}{text}" if colour else text
    except KeyboardInterrupt:
        yield "\n"


def _latest() -> str:
    runs = sorted(file.parent for file in Path("voir-runs").glob("*/*.json*"))
    if not runs:
        raise UsageError("usage", "voir show: voir-runs/ holds no run", "Name a run directory.")
    return str(max(runs, key=lambda run: run.stat().st_mtime))


def _watched(path: Path, width: int, colour: bool, wait: Callable[[], object]) -> Iterator[str]:
    """A summary for each change, until the run has ended."""
    shown: object = None
    while True:
        try:
            run = read_run(path)
            lives = goes_on(run.ranks or (run,)) is not False
            state, text = (state_of_files(run), lives), ""
            if state != shown:
                shown, text = state, _shown(run, width, colour)
        except VoirError as error:  # It has not begun, or somebody else's hand is in it.
            lives, text = True, "" if shown == error.what else f"voir: {error.what}; waiting\n"
            shown = error.what
        if text:
            yield text
        if not lives:
            return
        wait()


def _shown(run: Run, width: int, colour: bool) -> str:
    """The summary of each process, and what is missing or torn."""
    each = [_summary(one, width, colour) for one in run.ranks or (run,)]
    missing = [f"rank {rank}" for rank in run.missing_ranks]
    if missing:
        have = "has" if len(missing) == 1 else "have"
        text = Piece(f"{', '.join(missing)} {have} recorded nothing", "warn")
        each.append(Layout(width, colour).text([row("missing", text)]))
    return "\n".join(each)


def _summary(run: Run, width: int, colour: bool) -> str:
    if "ended" in run.facts:
        facts = {**run.facts, "directory": str(run.path)}
    else:
        lives = goes_on([run])
        state = {True: "goes on", False: "did not finish", None: "goes on, or did not finish"}
        facts = {**facts_so_far(run), "state": state[lives]}
    partial = Piece("metrics.jsonl ends within a line", "warn") if ends_torn(run) else None
    note = row("partial", partial, partial and "it is being written, or was cut off")
    return screen(facts, width, colour) + Layout(width, colour).text([note])
