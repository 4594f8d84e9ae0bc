"""voir's own part of the command line: the options it always has, and what they name."""

from __future__ import annotations

from argparse import Action

from ..errors import UsageError
from ..launch import Target
from .options import OptionParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class HelpAsked(Exception):
    """The command line asks for help or the version instead of a run.

    Attributes:
        text: What to print.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def target_of(rest: list[str]) -> Target | None:
    """What the command line asks to run; ``None`` when it names nothing.

    Args:
        rest: What comes after voir's own options.

    Raises:
        UsageError: ``-m`` without a module.
    """
    if not rest:
        return None
    if rest[0] != "-m":
        return Target("script", rest[0], tuple(rest[1:]))
    if len(rest) < 2:
        raise UsageError("no-script", "-m needs a module", "For example: voir -m package.module")
    kind = "function" if ":" in rest[1] else "module"
    return Target(kind, rest[1], tuple(rest[2:]))


def add_options(parser: OptionParser) -> None:
    """Add the options that voir has without any instrument."""
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show the options most used, and exit")
    add("--help-all", action="store_true", help="show all of them, and exit")
    add("--version", action="store_true", help="show voir's version and exit")
    add("--completion", metavar="bash|zsh", choices=("bash", "zsh", "words"),
        help="show what to evaluate so that the shell completes options, and exit")  # fmt: skip
    add("--voirfile", action="append", default=[], metavar="FILE",
        help="load this one instead of looking for one; repeatable")  # fmt: skip
    add("--no-voirfile", action="store_true", help="load no voirfile")
    add("--config", action="append", default=[], metavar="FILE",
        help="set options from a YAML or TOML file; repeatable")  # fmt: skip
    add("--run-dir", action=_RunDir, metavar="DIR",
        help="record in this directory, not in voir-runs")  # fmt: skip
    add("--no-record", action="store_true", help="record nothing")
    add("--quiet", action="store_true", help="no summary at the end")
    add("--strict", action="store_true",
        help="status 4 if an instrument failed or a probe saw nothing")  # fmt: skip
    add("--debug", action="store_true", help="say what is loaded and why")


class _RunDir(Action):
    """``--run-dir`` names the directory itself; from elsewhere the option names its parent."""

    def __call__(
        self, parser: object, namespace: Any, values: object, option_string: object = None
    ) -> None:
        """Take the value from the command line."""
        namespace.run_dir, namespace.run_dir_chosen = values, True
