"""``voir watch RUN``: the dashboard of a live run, or of one that has ended, from its files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ..clock import sleep, thread_time_ns
from ..errors import UsageError, VoirError
from ..recorder.encode import encode
from ..views.dash.dash import sink_for
from ..views.dash.layout import LEAST_COLUMNS, LEAST_ROWS
from ..views.dash.text import Palette
from ..views.dash.window import FullScreen
from ..views.text import is_terminal
from .commands import CommandParser, Terminal, within
from .live import LIVE_HELP, all_live_runs, live_run, live_runs
from .watched import Chooser, Watched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

_ABOUT = """\
Show the dashboard of a live run from another terminal, also if it was started without --dash. The
run goes on when you leave. Several runs are drawn over one another.
"""
#: Least seconds between two frames; and the inverse of their largest share of a core.
_FRAME_SECONDS, _COST_PART = 0.5, 100
#: Seconds between two lines of --json, and between two looks for a run that starts.
_LINE_SECONDS, _LOOK_SECONDS = 1.0, 1.0


def parser() -> CommandParser:
    """The parser of ``voir watch``."""
    made = CommandParser(prog="voir watch", description=_ABOUT, example="voir watch voir-runs/RUN")
    made.add_argument("run", metavar="RUN", nargs="*", help=LIVE_HELP)
    made.add_argument("--rank", metavar="R", type=within(0, 1 << 31, "number of a rank", int),
        help="of a job, begin with this rank")  # fmt: skip
    made.add_argument("--once", action="store_true", help="print one screen, and end")
    made.add_argument("--json", action="store_true",
        help="print a line of JSON a second; with --once, one line")  # fmt: skip
    return made


def watch(
    argv: list[str], terminal: Terminal, wait: Callable[[float], object] = sleep
) -> Iterator[str]:
    """Watch the runs that ``argv`` names; yield what is printed.

    Args:
        argv: The arguments of ``voir watch``.
        terminal: The size of the output.
        wait: Sleeps for a number of seconds.

    Raises:
        VoirError: There is no such run, or it cannot be read.
    """
    options = parser().parse_args(argv)
    if options.json and len(options.run) > 1:
        remedy = "Of several runs, start one for each."
        raise UsageError("usage", "voir watch --json: it takes one run", remedy)
    plain = os.environ.get("TERM") == "dumb" or not is_terminal(sys.stdout, os.environ)
    if options.once or options.json or plain:
        yield from _printed(options, terminal, wait)
        return
    keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    palette = Palette.of(sys.stdout, os.environ)
    screen, watched = FullScreen(keys, sys.stdout.fileno(), palette), None
    try:
        with screen, suppress(KeyboardInterrupt):
            paths = [live_run(each) for each in options.run] or _chosen(screen)
            if paths:
                watched = Watched(paths, options.rank)
                _shown(screen, watched)
    except OSError:  # The terminal is gone.
        return
    if watched is not None and not screen.gone:
        watched.page = ""
        yield _text(watched, (terminal.width, max(terminal.height - 1, LEAST_ROWS)), palette)


def _printed(
    options: Namespace, terminal: Terminal, wait: Callable[[float], object]
) -> Iterator[str]:
    """What is printed where there is no terminal of its own."""
    watched = Watched([live_run(each) for each in options.run or [None]], options.rank)
    if options.once and not options.json:
        wide = os.environ.get("COLUMNS", "")
        columns = int(wide) if wide.isdecimal() else terminal.width
        size = max(columns, LEAST_COLUMNS), (terminal.height or 33) - 1
        yield _text(watched, size, Palette() if terminal.colour else None)
        return
    lines = None if options.json else sink_for(sys.stdout, {})
    while True:
        if options.json:
            yield encode(watched.as_facts()).decode() + "\n"
        elif lines is not None:
            lines.draw(watched.board)
        if options.once or watched.ended:
            break
        wait(_LINE_SECONDS)
        watched.refresh()
    if lines is not None:
        lines.close(watched.board)
        yield f"{watched.state}\n"


def _text(watched: Watched, size: tuple[int, int], palette: Palette | None) -> str:
    """One screen as text, without the row of keys; without a palette, plain."""
    lines = watched.lines(*size)
    if palette is None:
        return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)
    return b"".join(palette.paint(line).rstrip() + b"\n" for line in lines).decode()


def _chosen(window: FullScreen) -> list[Path]:
    """The run that is running; of several, what the user chooses; waits for one to start.

    Runs of other directories are listed, too.
    """
    found = live_runs()
    if len(found) == 1:
        return found
    chooser = Chooser(found or all_live_runs())
    while True:
        window.draw(chooser.lines(*window.size()))
        key = window.key(_LOOK_SECONDS)
        if key == "q":
            return []
        if key and (chosen := chooser.chosen(key)):
            return [chosen]
        if not key:
            waited, found = not chooser.runs, live_runs()
            chooser.runs = found or all_live_runs()
            if waited and found:
                return found[:1]


def _shown(window: FullScreen, watched: Watched) -> None:
    """Show the board until the user leaves."""
    while True:
        begun = thread_time_ns()
        columns, rows = window.size()
        window.draw([*watched.lines(columns, rows - 1), watched.keys(columns)])
        with suppress(VoirError):  # Said in the last row.
            watched.refresh()
        cost = (thread_time_ns() - begun) / 1e9
        key = window.key(max(_FRAME_SECONDS, cost * _COST_PART))
        if key and watched.pressed(key):
            return
