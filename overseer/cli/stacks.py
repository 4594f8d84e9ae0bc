"""``voir stacks RUN``: prints where the threads of a live run are, of all ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..clock import time_ns
from ..errors import VoirError
from ..recorder.log import read_header
from ..recorder.sites import WORD_STACKS
from ..rundir.control import ask
from ..rundir.killed import STACKS_FILE, SUSPENDED
from .commands import CommandParser, Terminal
from .live import LIVE_HELP, live_job, short

#: Clocks of file systems are this much coarser.
_CLOCKS_NS = 2_000_000_000
_ABOUT = """\
Print the stacks of the threads of a live run; of a job, of all its ranks. A run whose interpreter
is held by C code cannot answer; it is looked at with py-spy, if that is installed.
"""


def parser() -> CommandParser:
    """The parser of ``voir stacks``."""
    made = CommandParser(
        prog="voir stacks", description=_ABOUT, example="voir stacks voir-runs/RUN"
    )
    made.add_argument("run", metavar="RUN", nargs="?", help=LIVE_HELP)
    return made


def stacks(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Print the stacks of the run that ``argv`` names.

    Raises:
        VoirError: There is no such live run, or no process of it answers.
    """
    _, live = live_job(parser().parse_args(argv).run)
    texts, silent = stacks_of(live)
    yield from texts
    for directory, why in silent.items():
        remedy = "py-spy may see its stacks, where it is installed."
        if SUSPENDED in why:
            remedy = "Let it go on first: kill -CONT PID"
        raise VoirError("no-answer", f"{short(directory)}: {why}", remedy)


def stacks_of(directories: Sequence[Path]) -> tuple[list[str], dict[Path, str]]:
    """The stacks of live processes, each with a heading; and why others have none."""
    since = time_ns()
    silent, texts = ask(directories, WORD_STACKS, 1), []
    for each in directories:
        text = ""
        if each in silent:
            from ..rundir.pyspy import seen_in

            found = read_header(os.fspath(each))
            text = seen_in(found.pid)[1] if found is not None else ""
        else:
            file = each / STACKS_FILE
            with suppress(OSError):
                if file.stat().st_mtime_ns >= since - _CLOCKS_NS:
                    text = file.read_text("utf-8", "replace")
            if not text:
                silent[each] = f"it could not write {STACKS_FILE}"
        if text:
            silent.pop(each, None)
            texts.append(f"{short(each)}:\n{text}\n")
    return texts, silent
