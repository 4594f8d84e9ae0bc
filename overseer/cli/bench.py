"""``voir bench``: runs a script many times, compares versions of it, and judges the difference."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ..bench import baseline, metric, record
from ..bench.process import check_interpreters
from ..bench.sides import Side, sides
from ..bench.worktrees import Worktrees
from ..clock import time_ns
from ..errors import UsageError, VoirError
from ..model.comparison import THRESHOLD
from ..rundir.directory import new_directory, safe_name, stamp
from .bench_run import BenchRun
from .commands import CommandParser, Terminal, within

_ABOUT = """\
Run a script in fresh processes until its speed is known, or compare versions of it: command lines
(A -- B), commits (--ref), interpreters (--python), values of an option (--vary). They run in turns.
Exit status: 0 no regression, 1 regression, 5 inconclusive, 6 measured nothing.
"""
#: Rounds, for one side and for several.
RUNS = 10


def _percent(text: str) -> float:
    return float(text.rstrip("% ")) / 100


def _seconds(text: str) -> float:
    scale = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return float(text[:-1]) * scale if scale else float(text)


def _varied(text: str) -> tuple[str, list[str]]:
    name, _, values = text.partition("=")
    listed = [each for each in values.split(",") if each]
    if not name or len(listed) < 2 or len({*listed}) < len(listed):
        raise ArgumentTypeError(f"{text!r} names no two different values, as NAME=1,2 does")
    return name.lstrip("-"), listed


def parser() -> CommandParser:
    """The parser of ``voir bench``."""
    example = "voir bench main.py --epochs 1"
    made = CommandParser(prog="voir bench", description=_ABOUT, example=example,
        usage="voir bench [options] SCRIPT [args] [-- SCRIPT [args]]")  # fmt: skip
    add_limits(made)
    made.add_argument("--ref", action="append", default=[], metavar="COMMIT",
        help="compare commits; . is the working tree")  # fmt: skip
    made.add_argument("--python", action="append", default=[], metavar="PYTHON",
        help="compare interpreters, each with voir installed")  # fmt: skip
    made.add_argument("--vary", action="append", default=[], type=_varied, metavar="OPTION=V1,V2",
        help="compare values of an option of the script")  # fmt: skip
    made.add_argument("--vary-env", action="append", default=[], type=_varied,
        metavar="NAME=V1,V2", help="compare values of an environment variable")  # fmt: skip
    made.add_argument("--own-cost", action="store_true",
        help="compare the script under voir with the script under plain python")  # fmt: skip
    made.add_argument("--save-baseline", metavar="NAME", help="keep the result under this name")
    made.add_argument("--baseline", metavar="NAME", help="compare with that result")
    made.add_argument("--fail-on", choices=["regression", "difference"], default="regression",
        help="what exit status 1 stands for (default: regression)")  # fmt: skip
    return made


def _parsed(argv: Sequence[str]) -> Namespace:
    """The options, with ``command``: all words from the script, or ``-m``, on."""
    made, at = parser(), 0
    while at < len(argv) and argv[at].startswith("-") and not argv[at].startswith(("-m", "-c")):
        action = made._option_string_actions.get(argv[at])
        at += 2 if action is not None and action.nargs is None else 1
    options = made.parse_args([*argv[:at]])
    options.command = [*argv[at:]]
    return options


def add_limits(made: CommandParser) -> None:
    """Add the options that ``voir bench`` and ``voir try`` share."""
    percent = within(0, 10, "percentage, such as 1%", _percent)
    made.add_argument("--runs", type=within(1, 10000, "number of rounds", int), metavar="N",
        default=RUNS, help=f"rounds at most (default: {RUNS})")  # fmt: skip
    made.add_argument("--until", type=percent, metavar="PERCENT",
        help="end when the interval is as narrow as this, but not before seven rounds")  # fmt: skip
    made.add_argument("--max-time", type=within(0, 1e9, "time, such as 5m", _seconds),
        metavar="TIME", help="begin no round that would end later: 90s, 5m, 1h")  # fmt: skip
    made.add_argument("--steps", type=within(1, 1 << 40, "number of steps", int), metavar="N",
        help="end each process after N training steps")  # fmt: skip
    made.add_argument("--metric", metavar="KEY", default="",
        help="a figure of run.json (default: train.rate.steady), wall, or KEY.last, KEY.mean of a "
        "value that the script logs")  # fmt: skip
    made.add_argument("--better", choices=["up", "down"],
        help="whether more or less of the metric is better, if voir does not know")  # fmt: skip
    made.add_argument("--threshold", type=percent, metavar="PERCENT", default=THRESHOLD,
        help="the smallest difference to call one (default: 1%%)")  # fmt: skip
    made.add_argument("--link", action="append", default=[], metavar="PATH",
        help="an untracked path that the script needs in a commit's worktree")  # fmt: skip
    made.add_argument("--verdict", metavar="FILE", help="write the verdict as JSON")
    made.add_argument("--run-dir", metavar="DIR", help="the directory of the bench")
    made.set_defaults(name="")


def bench(argv: list[str], terminal: Terminal) -> Generator[str, None, int]:
    """Run the bench that ``argv`` describes; yield the output, return the exit status.

    Raises:
        VoirError: A wrong option, or a side that cannot be run.
    """
    options = _parsed(argv)
    with ExitStack() as undo:
        trees = _worktrees(options, undo)
        compared = _sides(options, trees)
        check_options(options, compared)
        directory = bench_directory(options.run_dir, compared[0])
        running = BenchRun(options, argv, compared, trees, directory, terminal)
        return (yield from running.run(undo))


def check_options(options: Namespace, compared: Sequence[Side]) -> None:
    """Check what would fail only at the end.

    Raises:
        UsageError: An option that the bench cannot follow.
    """
    check_interpreters(side.python for side in compared)
    if options.baseline and len(compared) > 1:
        remedy = "Leave --baseline out, or name one command line."
        raise UsageError("usage", "voir bench --baseline: it is compared with one side", remedy)
    for name in filter(None, (options.baseline, options.save_baseline)):
        baseline.path_of(name)
    if options.verdict and not Path(options.verdict).absolute().parent.is_dir():
        what = f"voir bench --verdict {options.verdict}: there is no such directory"
        raise UsageError("usage", what, "Create it first.")


def _worktrees(options: Namespace, undo: ExitStack) -> Worktrees | None:
    if not options.ref:
        return None
    if len(options.ref) == 1:
        options.ref.append(".")
    return undo.enter_context(Worktrees(Path.cwd(), options.link))


def _sides(options: Namespace, trees: Worktrees | None) -> list[Side]:
    lines = _split(options.command)
    if not lines:
        raise UsageError("usage", "voir bench: no script", "For example: voir bench main.py")
    pythons = options.python or [sys.executable]
    refs = [(ref, trees.sha(ref)) for ref in options.ref] if trees else [("", "")]
    found = sides(lines, pythons, refs, dict(options.vary), dict(options.vary_env))
    if options.own_cost:
        if len(found) > 1:
            raise UsageError("usage", "voir bench --own-cost: it takes one side", None)
        plain = found[0]._replace(label="plain python", plain=True)
        found = [plain, found[0]._replace(name="B", label="voir")]
        options.metric = options.metric or metric.WALL
    return found


def _split(words: Sequence[str]) -> list[list[str]]:
    """The command lines: at most two, separated by ``--``."""
    if "--" in words:
        at = list(words).index("--")
        lines = [list(words[:at]), list(words[at + 1 :])]
        return [each for each in lines if each]
    return [list(words)] if words else []


def bench_directory(named: str | None, side: Side) -> Path:
    """A new directory for the bench, beside those of runs; or the named one.

    Raises:
        VoirError: It holds a bench already, or cannot be made.
    """
    script = next((word for word in side.command if not word.startswith("-")), "script")
    try:
        if named:
            Path(named).mkdir(parents=True, exist_ok=True)
            if (Path(named) / record.FILE).exists():
                what = f"--run-dir {named} is taken: it holds another bench"
                raise UsageError("run-dir-taken", what, "Name another directory.")
            return Path(named)
        base = Path(os.environ.get("VOIR_RUN_DIR") or "voir-runs")
        base.mkdir(parents=True, exist_ok=True)
        name = f"{stamp(time_ns())}-bench-{safe_name(script)}-{os.getpid()}"
        return new_directory(base, name)
    except OSError as error:
        what = f"{error.filename or named}: {error.strerror}"
        remedy = "Name another directory: --run-dir DIR"
        raise VoirError("record-unwritable", what, remedy) from None
