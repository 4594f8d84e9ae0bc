"""``voir try``: judges a change, the working tree against a commit, and refuses less work."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

from ..bench.sides import Side, sides
from ..bench.worktrees import HERE, Worktrees
from ..errors import UsageError
from .bench import add_limits, bench_directory, check_options
from .commands import CommandParser, Terminal
from .try_run import TryRun

_ABOUT = """\
Compare the working tree with a commit, in turns, and accept a change that is faster and does the
same work: as many steps, items, evaluations and values, and the same losses.
Exit status: 0 accept, 1 reject, 5 inconclusive, 6 measured nothing.
"""


def parser() -> CommandParser:
    """The parser of ``voir try``."""
    made = CommandParser(prog="voir try", description=_ABOUT,
        example='voir try "a faster tokenizer" -- main.py --epochs 1',
        usage="voir try [TEXT] [options] -- SCRIPT [args]")  # fmt: skip
    add_limits(made)
    made.add_argument("--ref", default="HEAD", metavar="COMMIT",
        help="compare with this commit (default: HEAD)")  # fmt: skip
    made.add_argument("--seed", metavar="OPTION",
        help="the script's option for its seed; each round gets another one")  # fmt: skip
    made.add_argument("--json", action="store_true", help="print only the verdict, as JSON")
    made.add_argument("name", nargs="?", default="", metavar="TEXT", help="what was changed")
    return made


def try_(argv: list[str], terminal: Terminal) -> Generator[str, None, int]:
    """Judge the change that ``argv`` names; yield the output, return the exit status.

    Raises:
        VoirError: A wrong option, nothing has changed, or a side cannot be run.
    """
    at = argv.index("--") if "--" in argv else len(argv)
    options = parser().parse_args(argv[:at])
    options.baseline = options.save_baseline = None
    options.command = argv[at + 1 :]
    with ExitStack() as undo:
        trees = undo.enter_context(Worktrees(Path.cwd(), options.link))
        compared = _sides(options, trees)
        check_options(options, compared)
        directory = bench_directory(options.run_dir, compared[0])
        return (yield from TryRun(options, argv, compared, trees, directory, terminal).run(undo))


def _sides(options: Namespace, trees: Worktrees) -> list[Side]:
    """The commit, and the working tree.

    Raises:
        UsageError: They are the same, or there is no script.
    """
    if not options.command:
        example = 'For example: voir try "a faster tokenizer" -- main.py'
        raise UsageError("usage", "voir try: no script after --", example)
    refs = [(ref, trees.sha(ref)) for ref in (options.ref, HERE)]
    if refs[0][1] == refs[1][1]:
        what = f"voir try: the working tree is the same as {options.ref}"
        raise UsageError("usage", what, "Change something, or name an older commit: --ref COMMIT")
    first, *rest = options.command
    if os.path.isabs(first) and Path(first).resolve().is_relative_to(trees.top.resolve()):
        first = os.path.relpath(first)  # Otherwise, both sides would run the file of the user.
    return sides([[first, *rest]], [sys.executable], refs, {}, {})
