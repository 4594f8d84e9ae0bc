"""``voir skill``: prints the page for coding agents, docs/SKILL.md."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from .commands import CommandParser, Terminal

_ABOUT = (
    "Print a page that tells a coding agent how to measure, change and judge a script with voir."
)


def parser() -> CommandParser:
    """The parser of ``voir skill``."""
    example = "voir skill > SKILL.md"
    return CommandParser(prog="voir skill", description=_ABOUT, example=example)


def skill(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Yield the page."""
    parser().parse_args(argv)
    yield files(__package__).joinpath("SKILL.md").read_text("utf-8")
