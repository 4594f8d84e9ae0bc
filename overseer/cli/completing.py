"""Completing the commands that run no script, and their options, in the shell."""

from __future__ import annotations

import os
from argparse import _SubParsersAction
from importlib import import_module

from .main import COMMANDS, runs


def completes(words: list[str]) -> bool:
    """Print what the last of ``words`` may become; whether it is of a command of ours."""
    found = candidates(words)
    if found is not None:
        print("\n".join(found))
    return found is not None


def candidates(words: list[str]) -> list[str] | None:
    """What the last of ``words`` may become, if it is of a command; nothing: a file's name.

    Args:
        words: What stands behind ``voir``, the last of them begun or empty.

    Returns:
        None when it is of no command: voir's own options are another's business.
    """
    *before, begun = words or [""]
    if not before:
        found = [name for name in COMMANDS if begun and name.startswith(begun)]
        # A script or its directory, which is what voir is for, is not hidden by a command.
        return None if any(name.startswith(begun) for name in os.listdir()) else found or None
    if before[0] not in COMMANDS or runs(before[0]):
        return None
    parser = import_module(f".{before[0]}", __package__).parser()
    inner = [a.choices for a in parser._actions if isinstance(a, _SubParsersAction)]
    parts = dict(inner[0]) if inner else {}
    chosen = next((parts[word] for word in before[1:] if word in parts), None)
    options = (chosen or parser)._option_string_actions
    last = options.get(before[-1])
    if last is not None and last.nargs is None:
        found = [str(choice) for choice in last.choices or ()]
    elif begun.startswith("-"):
        found = sorted(options)
    else:
        found = [] if chosen else [*parts]
    return [word for word in found if word.startswith(begun)]
