"""``voir stop RUN``: ends a live run cleanly, at its next step or at a given one."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import UsageError
from ..recorder.log import read_header
from ..recorder.sites import STOP_NOW, WORD_STEPS, WORD_STOP
from ..rundir.killed import RUNNING, now_doing
from .commands import CommandParser, Terminal, within
from .live import LIVE_HELP, live_job, request, short

_ABOUT = """\
End a live run as --stop N does: the script leaves its loop with status 0, and the run is recorded.
All ranks of a job stop at the same step.
"""


def parser() -> CommandParser:
    """The parser of ``voir stop``."""
    made = CommandParser(prog="voir stop", description=_ABOUT, example="voir stop --at 1000")
    made.add_argument("run", metavar="RUN", nargs="?", help=LIVE_HELP)
    made.add_argument("--at", type=within(1, STOP_NOW - 1, "number of a step", int), metavar="STEP",
        help="after this step; of a job, soon after it (default: the next one)")  # fmt: skip
    return made


def stop(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Ask the run that ``argv`` names to end; yield what happens.

    Raises:
        VoirError: There is no such live run, or it does not answer.
    """
    options = parser().parse_args(argv)
    path, live = live_job(options.run)
    headers = [found for each in live if (found := read_header(str(each)))]
    steps = max((found.control[WORD_STEPS] for found in headers), default=0)
    if options.at is not None and options.at <= steps:
        what = f"{short(path)} is at step {steps:,} already"
        raise UsageError("usage", what, "Name a later step, or leave --at out.")
    request(live[:1], WORD_STOP, options.at or STOP_NOW)  # It asks the other ranks.
    when = f"after step {options.at:,}" if options.at is not None else "at its next step"
    if len(live) > 1:
        when = f"soon {when}, all ranks at the same one" if options.at else "in a few steps"
    yield f"{short(path)} stops {when}\n"
    if not steps:
        yield "no step of it has been seen so far\n"
    elif still := [doing for found in headers if (doing := now_doing(found)) != RUNNING]:
        yield f"it makes no step now: {still[0]}\n"
