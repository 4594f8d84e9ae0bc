"""What commands print, without a process."""

from __future__ import annotations

from importlib import import_module

from overseer.cli.commands import Terminal


def said(*argv: str, width: int = 80) -> str:
    """What ``voir ARGV`` prints.

    Args:
        argv: The command, and what follows it.
        width: The terminal's.
    """
    command = getattr(import_module(f"overseer.cli.{argv[0]}"), argv[0])
    return "".join(command([*argv[1:]], Terminal(width)))
